// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
)

// How many lines an informer may log.
const (
	informerLogEvery = 10 * time.Second
	informerLogBurst = 5
)

// RunWithContext runs the informer. What client-go logs in it is about the remote's answers, often in
// the remote's own words and as often as the remote likes: a thousand lines a second, or a megabyte in
// one. So it is bounded, and says which remote it is about.
func (s *Informer) RunWithContext(ctx context.Context) {
	sink := &remoteSink{
		inner: s.budget.options.Log.WithName("informer").WithValues("kind", s.kind).GetSink(),
		limit: rate.NewLimiter(rate.Every(informerLogEvery), informerLogBurst),
		clean: s.budget.options.Sanitize,
	}
	s.SharedIndexInformer.RunWithContext(logr.NewContext(ctx, logr.New(sink)))
}

// remoteSink logs what a remote says: a few lines of it, cut and without what does something to a
// terminal.
type remoteSink struct {
	inner logr.LogSink
	limit *rate.Limiter
	clean func(string) string
}

var _ logr.LogSink = (*remoteSink)(nil)

// Init is not passed on: the inner sink was initialised when it was made.
func (s *remoteSink) Init(logr.RuntimeInfo) {}

// Enabled reports whether a line of that level may be logged at all.
func (s *remoteSink) Enabled(level int) bool { return s.inner != nil && s.inner.Enabled(level) }

// Info logs a line at the level of debugging at least, unless there were too many: what is wrong with a remote is said
// in its Info, and is no failure of the hub.
func (s *remoteSink) Info(level int, msg string, values ...any) {
	const debugging = 1
	if level = max(level, debugging); s.Enabled(level) && s.limit.Allow() {
		s.inner.Info(level, s.clean(msg), s.cleanAll(values)...)
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
	return &remoteSink{inner: s.inner.WithValues(s.cleanAll(values)...), limit: s.limit, clean: s.clean}
}

// WithName returns a sink that names each line, with the same limit.
func (s *remoteSink) WithName(name string) logr.LogSink {
	if s.inner == nil {
		return s
	}
	return &remoteSink{inner: s.inner.WithName(name), limit: s.limit, clean: s.clean}
}

// cleanAll returns keys and values as short texts. Of an error that is its class: client-go quotes events that it cannot
// decode.
func (s *remoteSink) cleanAll(values []any) []any {
	cleaned := make([]any, len(values))
	for i, v := range values {
		if err, failed := v.(error); failed {
			cleaned[i] = causeOf(err)
		} else {
			cleaned[i] = s.clean(fmt.Sprint(v))
		}
	}
	return cleaned
}
