// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"slices"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
)

// If the outcome of a task is lost, the next task does not remove the finalizer that the first task was to remove.
func TestRemoveFinalizer_OfATaskWhoseOutcomeIsLost(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const own = "example.com/own"
	s.Make("a", func(o *Tunnel) { o.Finalizers = []string{own} })
	s.Remove("a")
	var p process
	h := newHost(t, p.client(s), inStatus())
	alive, die := context.WithCancel(t.Context())
	h.SetClock(alive)
	c := s.controller(h, "a")
	err := c.Guard(t.Context(), "fill in", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
		must(t, c.RemoveFinalizer(ctx, own))
		p.kill() // temporarily
		die()
		return done, nil
	})
	testkit.Fails(t, err, "outcome was written after the kill")
	p.revive()
	h.SetClock(t.Context())
	must(t, c.Guard(t.Context(), "look", func(_ context.Context, a guard.Attempt) (guard.Outcome, error) {
		if !a.Recovering {
			t.Errorf("got attempt %+v, want Recovering", a)
		}
		return done, nil
	}))
	if !slices.Contains(s.Read("a").Finalizers, own) {
		t.Error("finalizer was removed")
	}
}
