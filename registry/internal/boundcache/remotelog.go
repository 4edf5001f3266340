// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Limits of the log lines of an informer.
const (
	informerLogEvery = 10 * time.Second
	informerLogBurst = 5
)

// RunWithContext runs the informer. The log lines of client-go are about the responses of the remote, often in its
// words and as often as the remote likes: a thousand lines a second, or a megabyte in one line. So the informer limits
// them, and adds the name of the remote.
func (i *Informer) RunWithContext(ctx context.Context) {
	sink := &remoteSink{
		inner: i.budget.options.Log.WithName("informer").WithValues("kind", i.kind).GetSink(),
		limit: rate.NewLimiter(rate.Every(informerLogEvery), informerLogBurst),
	}
	i.Informer.RunWithContext(logr.NewContext(ctx, logr.New(sink)))
}

// remoteSink logs texts of a remote: a limited number of lines, shortened and without control characters.
type remoteSink struct {
	inner logr.LogSink
	limit *rate.Limiter
}

var _ logr.LogSink = (*remoteSink)(nil)

// Init does nothing: the inner sink was initialized when it was made.
func (s *remoteSink) Init(logr.RuntimeInfo) {}

// Enabled reports whether lines of a level are logged.
func (s *remoteSink) Enabled(level int) bool { return s.inner != nil && s.inner.Enabled(level) }

// Info logs a line at the debugging level or above, unless the limit is exceeded: the status of the remote shows the
// fault, and it is no failure of the hub.
func (s *remoteSink) Info(level int, msg string, values ...any) {
	const debugging = 1
	if level = max(level, debugging); s.Enabled(level) && s.limit.Allow() {
		s.inner.Info(level, state.Sanitize(msg), sanitizeAll(values)...)
	}
}

// Error logs a line as Info does.
func (s *remoteSink) Error(err error, msg string, values ...any) {
	if err != nil {
		values = append(values, "cause", err)
	}
	s.Info(0, msg, values...)
}

// WithValues returns a sink that adds values to each line, with the same limit.
func (s *remoteSink) WithValues(values ...any) logr.LogSink {
	if s.inner == nil {
		return s
	}
	return &remoteSink{inner: s.inner.WithValues(sanitizeAll(values)...), limit: s.limit}
}

// WithName returns a sink that names each line, with the same limit.
func (s *remoteSink) WithName(name string) logr.LogSink {
	if s.inner == nil {
		return s
	}
	return &remoteSink{inner: s.inner.WithName(name), limit: s.limit}
}

// sanitizeAll returns keys and values as short texts. Errors are replaced by their class, because client-go quotes events
// that it cannot decode.
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
