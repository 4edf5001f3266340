// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
)

// quietAtEnd returns a logger for what runs until end. The end of an app is ordinary: remotes become unreachable, and
// configurations change. What ends with it reports that as errors, by the dozen: requests that were refused at the
// fence, caches that did not sync. Those lines become lines for debugging. all says that every error after the end is
// one of them, as is so for the manager and for controllers; otherwise only those that the end has caused are.
func quietAtEnd(end context.Context, log logr.Logger, all bool) logr.Logger {
	if log.GetSink() == nil {
		return log
	}
	return log.WithSink(&endSink{LogSink: log.GetSink(), end: end, all: all})
}

type endSink struct {
	logr.LogSink
	end context.Context //nolint:containedctx // The end of what the log is about.
	all bool
}

// Error logs an error, or a line for debugging.
func (s *endSink) Error(err error, msg string, values ...any) {
	const debugging = 1
	if s.end.Err() == nil || !s.all && !isEnd(err) {
		s.LogSink.Error(err, msg, values...)
		return
	}
	if s.Enabled(debugging) {
		if err != nil {
			values = append(values, "error", err.Error())
		}
		s.Info(debugging, msg, values...)
	}
}

// isEnd reports whether an error says no more than that the app has ended.
func isEnd(err error) bool { return errors.Is(err, ErrStopped) || errors.Is(err, context.Canceled) }

// WithValues returns a sink with these values.
func (s *endSink) WithValues(values ...any) logr.LogSink {
	return &endSink{LogSink: s.LogSink.WithValues(values...), end: s.end, all: s.all}
}

// WithName returns a sink with this name.
func (s *endSink) WithName(name string) logr.LogSink {
	return &endSink{LogSink: s.LogSink.WithName(name), end: s.end, all: s.all}
}
