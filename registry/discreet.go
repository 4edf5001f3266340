// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Quote makes a text that a remote wrote fit for the status of an object that a user owns, such as the reason for which
// the remote has refused the object: one line of printable characters, at most kubeconfig.MaxQuote bytes, in which
// each part of the credentials of the remote and of the hub is replaced. Put nothing else that a remote wrote there.
func (r *Registry) Quote(name ClusterName, text string) string {
	redact := func(text string) string { return kubeconfig.Redact(text, r.hubCredential.get()) }
	if a, err := r.actor(name); err == nil {
		redact = a.current.Load().redact
	}
	return kubeconfig.Quote(text, redact)
}

// Quoter makes a text that a remote wrote fit for the status of an object that a user owns, as the method Quote of a
// Registry does.
type Quoter func(text string) string

// quoter returns the Quoter for a remote whose credentials a function replaces.
func quoter(redact func(text string) string) Quoter {
	return func(text string) string { return kubeconfig.Quote(text, redact) }
}

// hubCredential is the credential of the hub in its own cluster. That of a Pod is rotated in a file, so the Redactor reads
// it again while texts are redacted.
type hubCredential struct {
	config  *rest.Config
	secrets *kubeconfig.Redactor

	mu    sync.Mutex // protects what follows
	known kubeconfig.Credential
	read  time.Time
}

// hubCredentialAge is how old it may be. client-go sends a new token up to a minute after the file has it.
const hubCredentialAge = 5 * time.Second

// follow has the Redactor know the credential from now on.
func (h *hubCredential) follow() {
	h.secrets.Refresh(func() { h.get() })
	h.get()
}

func (h *hubCredential) get() kubeconfig.Credential {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); h.read.IsZero() || now.Sub(h.read) > hubCredentialAge {
		h.known, h.read = kubeconfig.CredentialOf(h.config), now
		h.secrets.Set("", h.known) // which is the name of no remote
	}
	return h.known
}

// redactFor returns a function that replaces the credentials of the hub, and that with which requests are sent on a
// connection.
func (env *environment) redactFor(t *kubeconfig.Transport) func(string) string {
	return func(text string) string { return kubeconfig.Redact(t.Redact(text), env.hubCredential.get()) }
}

// RedactingLogger returns a logger that replaces the credentials which a Redactor knows in the texts and errors that it logs,
// at every level. See Options.Secrets.
func RedactingLogger(log logr.Logger, secrets *kubeconfig.Redactor) logr.Logger {
	if already, ok := log.GetSink().(*redactingSink); ok && already.secrets == secrets {
		return log
	}
	log = redacting(log, secrets.Redact)
	if sink, ok := log.GetSink().(*redactingSink); ok {
		sink.secrets = secrets
	}
	return log
}

// redacting returns a logger that replaces credentials in the texts and errors that it logs, at every level.
func redacting(log logr.Logger, redact func(string) string) logr.Logger {
	if log.GetSink() == nil {
		return log
	}
	return log.WithSink(&redactingSink{inner: log.GetSink(), redact: redact})
}

type redactingSink struct {
	inner   logr.LogSink
	redact  func(string) string
	secrets *kubeconfig.Redactor // whose redact is; nil for another function
}

var _ logr.LogSink = (*redactingSink)(nil)

// Init is not passed on: the inner sink was initialised when it was made.
func (s *redactingSink) Init(logr.RuntimeInfo) {}

// Enabled reports whether a line of that level is logged.
func (s *redactingSink) Enabled(level int) bool { return s.inner.Enabled(level) }

// Info logs a line.
func (s *redactingSink) Info(level int, msg string, values ...any) {
	s.inner.Info(level, s.redact(msg), s.all(values)...)
}

// Error logs a line about an error.
func (s *redactingSink) Error(err error, msg string, values ...any) {
	s.inner.Error(s.error(err), s.redact(msg), s.all(values)...)
}

// WithValues returns a sink that adds values to each line.
func (s *redactingSink) WithValues(values ...any) logr.LogSink {
	return &redactingSink{s.inner.WithValues(s.all(values)...), s.redact, s.secrets}
}

// WithName returns a sink that names each line.
func (s *redactingSink) WithName(name string) logr.LogSink {
	return &redactingSink{s.inner.WithName(name), s.redact, s.secrets}
}

// WithCallDepth returns a sink that takes the line of code further up for the origin of a line.
func (s *redactingSink) WithCallDepth(depth int) logr.LogSink {
	if inner, ok := s.inner.(logr.CallDepthLogSink); ok {
		return &redactingSink{inner.WithCallDepth(depth), s.redact, s.secrets}
	}
	return s
}

// all returns values without credentials in their texts. What is a struct is an object or a type of the hub.
func (s *redactingSink) all(values []any) []any {
	kept := make([]any, len(values))
	for i, value := range values {
		kept[i] = value
		switch v := value.(type) {
		case string:
			kept[i] = s.redact(v)
		case error:
			kept[i] = s.error(v)
		case []byte:
			kept[i] = s.redact(string(v))
		case []string, fmt.Stringer:
			if text := fmt.Sprint(v); s.redact(text) != text {
				kept[i] = s.redact(text)
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
	if redacted := s.redact(text); redacted != text {
		return redactedError(redacted)
	}
	return err
}

// redactedError is what is left of an error.
type redactedError string

func (e redactedError) Error() string { return string(e) }
