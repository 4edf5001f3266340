// SPDX-License-Identifier: Apache-2.0

// Package entitytest is shared by the tests of package entity and below.
package entitytest

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// Beat is the interval of canaries in tests.
const Beat = 300 * time.Millisecond

// Use returns a connection as bucket.Options has it.
func Use(js jetstream.JetStream) func() (jetstream.JetStream, error) {
	return func() (jetstream.JetStream, error) { return js, nil }
}

// Anchor is a bucket.Anchor in memory, which outlives the processes of a test.
type Anchor struct {
	mu    sync.Mutex
	id    bucket.Identity
	known bool
}

var _ bucket.Anchor = (*Anchor)(nil)

// Load returns the identity that was saved last.
func (a *Anchor) Load(context.Context) (bucket.Identity, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id, a.known, nil
}

// Save replaces the identity.
func (a *Anchor) Save(_ context.Context, id bucket.Identity) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id, a.known = id, true
	return nil
}
