// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/internal/logsink"
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

// hubCredential is the credential of the hub in its own cluster. The credential of a Pod is rotated in a file, so the
// Redactor reads it again while texts are redacted.
type hubCredential struct {
	config  *rest.Config
	secrets *kubeconfig.Redactor

	mu    sync.Mutex // protects the fields below
	known kubeconfig.Credential
	read  time.Time
}

// hubCredentialAge is how old the known credential may be. client-go sends a new token up to a minute after the file
// has it.
const hubCredentialAge = 5 * time.Second

// follow gives the credential, now and after each change, to the Redactor.
func (h *hubCredential) follow() {
	h.secrets.Refresh(func() { h.get() })
	h.get()
}

func (h *hubCredential) get() kubeconfig.Credential {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); h.read.IsZero() || now.Sub(h.read) > hubCredentialAge {
		h.known, h.read = kubeconfig.CredentialOf(h.config), now
		h.secrets.Set("", h.known) // no remote has the empty name
	}
	return h.known
}

// redactFor returns a function that replaces the credentials of the hub, and the credential with which requests are
// sent on a connection.
func (env *environment) redactFor(t *kubeconfig.Transport) func(string) string {
	return func(text string) string { return kubeconfig.Redact(t.Redact(text), env.hubCredential.get()) }
}

// RedactingLogger returns a logger that replaces the credentials which a Redactor knows in the texts and errors that it logs,
// at every level. See Options.Secrets.
func RedactingLogger(log logr.Logger, secrets *kubeconfig.Redactor) logr.Logger {
	return logsink.RedactSecrets(log, secrets)
}
