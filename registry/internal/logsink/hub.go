// SPDX-License-Identifier: Apache-2.0

package logsink

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// A credential older than maxAge is read again: client-go sends a new token up to a minute after the file has it.
// Meanwhile other goroutines use the known one, unless that is older than longAge.
const (
	maxAge  = 5 * time.Second
	longAge = 30 * time.Second
)

// FollowHub gives the credential of the hub in its own cluster to a Redactor. That of a Pod is rotated in a file, so it is read
// again while texts are redacted. Goroutines wait for one that reads it only if the known one is older than longAge, since
// those of all remotes redact.
func FollowHub(config *rest.Config, secrets *kubeconfig.Redactor) {
	var (
		reading sync.Mutex
		read    atomic.Pointer[time.Time]
	)
	read.Store(&time.Time{})
	follow := func() {
		last := read.Load()
		switch age := time.Since(*last); {
		case age > longAge:
			reading.Lock()
		case age <= maxAge || !reading.TryLock():
			return
		}
		defer reading.Unlock()
		if read.Load() != last {
			return // Another goroutine has read it meanwhile.
		}
		now := time.Now()
		secrets.Set("", kubeconfig.CredentialOf(config)) // no remote has the empty name
		read.Store(&now)
	}
	secrets.Refresh(follow)
	follow()
}
