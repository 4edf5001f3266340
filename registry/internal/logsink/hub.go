// SPDX-License-Identifier: Apache-2.0

package logsink

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// HubCredential is the credential of the hub in its own cluster. That of a Pod is rotated in a file, so it is read again while
// texts are redacted.
type HubCredential struct {
	config  *rest.Config
	secrets *kubeconfig.Redactor

	mu    sync.Mutex // held while the credential is read
	known atomic.Pointer[reading]
}

type reading struct {
	credential kubeconfig.Credential
	at         time.Time
}

// NewHubCredential returns the credential of a configuration. Follow gives it to secrets.
func NewHubCredential(config *rest.Config, secrets *kubeconfig.Redactor) *HubCredential {
	return &HubCredential{config: config, secrets: secrets}
}

// A credential older than maxAge is read again: client-go sends a new token up to a minute after the file has it.
// Meanwhile other goroutines use the known one, unless that is older than longAge.
const (
	maxAge  = 5 * time.Second
	longAge = 30 * time.Second
)

// Follow gives the credential, now and after each change, to the Redactor.
func (h *HubCredential) Follow() {
	h.secrets.Refresh(func() { h.Credential() })
	h.Credential()
}

// Credential returns the credential, read again while it is in use. It waits for another reader only if the known one
// is older than longAge, since the goroutines of all remotes call it.
func (h *HubCredential) Credential() kubeconfig.Credential {
	known := h.known.Load()
	switch {
	case known == nil || time.Since(known.at) > longAge:
		h.mu.Lock()
	case time.Since(known.at) <= maxAge || !h.mu.TryLock():
		return known.credential
	}
	defer h.mu.Unlock()
	if again := h.known.Load(); again != known {
		return again.credential // Another goroutine has read it meanwhile.
	}
	next := &reading{kubeconfig.CredentialOf(h.config), time.Now()}
	h.secrets.Set("", next.credential) // no remote has the empty name
	h.known.Store(next)
	return next.credential
}
