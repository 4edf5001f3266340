// SPDX-License-Identifier: Apache-2.0

package logsink

import (
	"fmt"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// RedactSecrets replaces the credentials of a Redactor in texts and errors, at every level. A logger that does so
// already is returned as it is.
func RedactSecrets(log logr.Logger, secrets *kubeconfig.Redactor) logr.Logger {
	if already, ok := log.GetSink().(*redactingSink); ok && already.secrets == secrets {
		return log
	}
	if log.GetSink() == nil {
		return log
	}
	return log.WithSink(&redactingSink{log.GetSink(), secrets})
}

type redactingSink struct {
	inner   logr.LogSink
	secrets *kubeconfig.Redactor
}

var _ logr.LogSink = (*redactingSink)(nil)

// The inner sink was initialised when it was made.
func (s *redactingSink) Init(logr.RuntimeInfo) {}

func (s *redactingSink) Enabled(level int) bool { return s.inner.Enabled(level) }

func (s *redactingSink) Info(level int, msg string, values ...any) {
	s.inner.Info(level, s.secrets.Redact(msg), s.all(values)...)
}

func (s *redactingSink) Error(err error, msg string, values ...any) {
	s.inner.Error(s.error(err), s.secrets.Redact(msg), s.all(values)...)
}

func (s *redactingSink) WithValues(values ...any) logr.LogSink {
	return &redactingSink{s.inner.WithValues(s.all(values)...), s.secrets}
}

func (s *redactingSink) WithName(name string) logr.LogSink {
	return &redactingSink{s.inner.WithName(name), s.secrets}
}

func (s *redactingSink) WithCallDepth(depth int) logr.LogSink {
	if inner, ok := s.inner.(logr.CallDepthLogSink); ok {
		return &redactingSink{inner.WithCallDepth(depth), s.secrets}
	}
	return s
}

// all leaves structs, which are objects or types of the hub.
func (s *redactingSink) all(values []any) []any {
	kept := make([]any, len(values))
	for i, value := range values {
		kept[i] = value
		switch v := value.(type) {
		case string:
			kept[i] = s.secrets.Redact(v)
		case error:
			kept[i] = s.error(v)
		case []byte:
			kept[i] = s.secrets.Redact(string(v))
		case []string, fmt.Stringer:
			if text := fmt.Sprint(v); s.secrets.Redact(text) != text {
				kept[i] = s.secrets.Redact(text)
			}
		}
	}
	return kept
}

func (s *redactingSink) error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if redacted := s.secrets.Redact(text); redacted != text {
		return redactedError(redacted)
	}
	return err
}

type redactedError string

func (e redactedError) Error() string { return string(e) }
