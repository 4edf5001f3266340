// SPDX-License-Identifier: Apache-2.0

package logsink

import (
	"errors"
	"slices"

	"github.com/go-logr/logr"
)

// QuietAfter returns a logger for code that runs until ended reports true. The end of an app is ordinary, and such code
// reports it as errors by the dozen; these become lines for debugging. causes are the errors that the end leads to;
// without causes, as for managers and controllers, every error after it counts.
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

func (s *quietSink) isQuiet(err error) bool {
	return len(s.causes) == 0 || slices.ContainsFunc(s.causes, func(cause error) bool { return errors.Is(err, cause) })
}

func (s *quietSink) WithValues(values ...any) logr.LogSink {
	return &quietSink{LogSink: s.LogSink.WithValues(values...), ended: s.ended, causes: s.causes}
}

func (s *quietSink) WithName(name string) logr.LogSink {
	return &quietSink{LogSink: s.LogSink.WithName(name), ended: s.ended, causes: s.causes}
}
