// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Hub is the credential of the hub in its own cluster. The credential of a Pod is rotated in a file, so the Redactor
// reads it again while texts are redacted.
type Hub struct {
	config  *rest.Config
	secrets *kubeconfig.Redactor

	mu    sync.Mutex // protects the fields below
	known kubeconfig.Credential
	read  time.Time
}

// NewHub returns the credential of a configuration. Follow gives it to secrets.
func NewHub(config *rest.Config, secrets *kubeconfig.Redactor) *Hub {
	return &Hub{config: config, secrets: secrets}
}

// maxAge is how old the known credential may be. client-go sends a new token up to a minute after the file has it.
const maxAge = 5 * time.Second

// Follow gives the credential, now and after each change, to the Redactor.
func (h *Hub) Follow() {
	h.secrets.Refresh(func() { h.Credential() })
	h.Credential()
}

// Redact replaces each part of the credential, and of more credentials, in a text.
func (h *Hub) Redact(text string, more ...kubeconfig.Credential) string {
	return kubeconfig.Redact(text, slices.Concat(more, []kubeconfig.Credential{h.Credential()})...)
}

// Credential returns the credential, which is read again while it is in use.
func (h *Hub) Credential() kubeconfig.Credential {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); h.read.IsZero() || now.Sub(h.read) > maxAge {
		h.known, h.read = kubeconfig.CredentialOf(h.config), now
		h.secrets.Set("", h.known) // no remote has the empty name
	}
	return h.known
}
