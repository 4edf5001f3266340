// SPDX-License-Identifier: Apache-2.0

package logsink

import (
	"errors"
	"slices"

	"github.com/go-logr/logr"
)

// QuietAfter returns a logger for code that runs until ended reports true. The end of an app is ordinary: remotes become
// unreachable, and configurations change. The code that ends with the app reports the end as errors, by the dozen: requests
// that were refused at the fence, caches that did not sync. QuietAfter logs these errors as lines for debugging. causes
// are the errors that the end leads to; without causes every error after the end is such an error, as is so
// for the manager and for controllers.
func QuietAfter(ended func() bool, log logr.Logger, causes ...error) logr.Logger {
	if log.GetSink() == nil {
		return log
	}
	return log.WithSink(&quietSink{LogSink: log.GetSink(), ended: ended, causes: causes})
}

type quietSink struct {
	logr.LogSink
	ended  func() bool
	causes []error
}

// Error logs an error, or a line for debugging.
func (s *quietSink) Error(err error, msg string, values ...any) {
	const debugging = 1
	if !s.ended() || !s.isQuiet(err) {
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

// isQuiet reports whether an error after the end is logged as a line for debugging.
func (s *quietSink) isQuiet(err error) bool {
	return len(s.causes) == 0 || slices.ContainsFunc(s.causes, func(cause error) bool { return errors.Is(err, cause) })
}

// WithValues returns a sink with these values.
func (s *quietSink) WithValues(values ...any) logr.LogSink {
	return &quietSink{LogSink: s.LogSink.WithValues(values...), ended: s.ended, causes: s.causes}
}

// WithName returns a sink with this name.
func (s *quietSink) WithName(name string) logr.LogSink {
	return &quietSink{LogSink: s.LogSink.WithName(name), ended: s.ended, causes: s.causes}
}
