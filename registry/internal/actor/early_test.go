// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"context"
	"sync"
	"testing"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
)

// The requests of a contact may begin before those of an earlier contact, which has failed, have ended.
func TestEarlyRequests_TwoContacts(t *testing.T) {
	t.Parallel()
	host, prepared := &app.Common{Mappings: &restmapper.Mappings{}}, 0
	var mu sync.Mutex // protects prepared
	e := &earlyRequests{current: func() string { return "credential" }, prepare: func() *app.Early {
		mu.Lock()
		defer mu.Unlock()
		prepared++
		return host.NewEarly(app.EarlyRemote{})
	}}
	first := &earlyDocuments{e.prepare(), "credential"}
	e.first.Store(first)
	e.latest.Store(first)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Nothing is sent.
	var contacts sync.WaitGroup
	for range 2 {
		contacts.Go(func() { e.send(ctx) })
	}
	contacts.Wait()
	if prepared != 2 {
		t.Errorf("documents were prepared %d times, want once for each contact", prepared)
	}
	if e.take("credential") == nil {
		t.Error("there are no documents for the next app")
	}
}
