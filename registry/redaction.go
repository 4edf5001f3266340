// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Quote makes a text that a remote wrote fit for the status of an object that a user owns, such as the reason for which
// the remote has refused the object: one line of printable characters, at most kubeconfig.MaxQuote bytes, in which
// each part of the credentials of the remote and of the hub is replaced. Put nothing else that a remote wrote there.
func (r *Registry) Quote(name ClusterName, text string) string {
	redact := func(text string) string { return r.remotes.HubCredential.Redact(text) }
	if a, err := r.actor(name); err == nil {
		redact = a.Current().Redact
	}
	return kubeconfig.Quote(text, redact)
}

// quoter returns the Quoter for a remote whose credentials a function replaces.
func quoter(redact func(text string) string) kubeconfig.Quoter {
	return func(text string) string { return kubeconfig.Quote(text, redact) }
}

// RedactingLogger returns a logger that replaces the credentials which a Redactor knows in the texts and errors that it logs,
// at every level. See Options.Secrets.
func RedactingLogger(log logr.Logger, secrets *kubeconfig.Redactor) logr.Logger {
	return logsink.RedactSecrets(log, secrets)
}
