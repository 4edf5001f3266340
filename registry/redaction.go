// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Quote makes a remote's text fit for a user's status: one line, printable, at most kubeconfig.MaxQuote bytes, without
// credentials of remote and hub. Nothing else of a remote must go there.
func (r *Registry) Quote(name ClusterName, text string) string {
	redact := func(text string) string { return r.remotes.HubCredential.Redact(text) }
	if a, err := r.actor(name); err == nil {
		redact = a.Current().Redact
	}
	return kubeconfig.Quote(text, redact)
}

func quoter(redact func(text string) string) kubeconfig.Quoter {
	return func(text string) string { return kubeconfig.Quote(text, redact) }
}

// RedactingLogger replaces the credentials of a Redactor in texts and errors at every level. See Options.Secrets.
func RedactingLogger(log logr.Logger, secrets *kubeconfig.Redactor) logr.Logger {
	return logsink.RedactSecrets(log, secrets)
}
