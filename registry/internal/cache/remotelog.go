// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	informerLogEvery = 10 * time.Second
	informerLogBurst = 5
)

// remoteLog is for client-go, which logs responses of the remote, often in its words and as often as it likes (a
// thousand lines a second, a megabyte in one line): it limits that, and adds the remote's name.
func (i *Informer) remoteLog() logr.Logger {
	return logr.New(&remoteSink{
		inner: i.budget.options.Log.WithName("informer").WithValues("kind", i.kind).GetSink(),
		limit: rate.NewLimiter(rate.Every(informerLogEvery), informerLogBurst),
	})
}

type remoteSink struct {
	inner logr.LogSink
	limit *rate.Limiter
}

var _ logr.LogSink = (*remoteSink)(nil)

func (s *remoteSink) Init(logr.RuntimeInfo) {}

func (s *remoteSink) Enabled(level int) bool { return s.inner != nil && s.inner.Enabled(level) }

// Info logs for debugging only, within the limit: the status shows the fault, and it is no failure of the hub.
func (s *remoteSink) Info(level int, msg string, values ...any) {
	const debugging = 1
	if level = max(level, debugging); s.Enabled(level) && s.limit.Allow() {
		s.inner.Info(level, state.Sanitize(msg), sanitizeAll(values)...)
	}
}

func (s *remoteSink) Error(err error, msg string, values ...any) {
	if err != nil {
		values = append(values, "cause", err)
	}
	s.Info(0, msg, values...)
}

func (s *remoteSink) WithValues(values ...any) logr.LogSink {
	if s.inner == nil {
		return s
	}
	return &remoteSink{inner: s.inner.WithValues(sanitizeAll(values)...), limit: s.limit}
}

func (s *remoteSink) WithName(name string) logr.LogSink {
	if s.inner == nil {
		return s
	}
	return &remoteSink{inner: s.inner.WithName(name), limit: s.limit}
}

// sanitizeAll shortens texts. Errors become their class, because client-go quotes events that it cannot decode.
func sanitizeAll(values []any) []any {
	texts := make([]any, len(values))
	for i, v := range values {
		if err, failed := v.(error); failed {
			texts[i] = causeOf(err).text
		} else {
			texts[i] = state.Sanitize(fmt.Sprint(v))
		}
	}
	return texts
}
