// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"slices"
	"testing"

	"github.com/clusterfx/clusterfx/reconcilers/guard"
)

// What a task wanted to be removed, and then did not come to its end, is not removed by the next task.
func TestRemoveFinalizer_OfATaskWhoseOutcomeIsLost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const own = "example.com/own"
	s.newTunnel("a", func(o *Tunnel) { o.Finalizers = []string{own} })
	s.remove("a")
	var p process
	h := newHost(t, p.client(s), inStatus())
	alive, die := context.WithCancel(t.Context())
	h.SetClock(alive)
	c := s.controller(h, "a")
	err := c.Guard(t.Context(), "fill in", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
		must(t, c.RemoveFinalizer(ctx, own))
		p.kill() // for a while
		die()
		return done, nil
	})
	if err == nil {
		t.Error("the outcome is written")
	}
	p.revive()
	h.SetClock(t.Context())
	must(t, c.Guard(t.Context(), "look", func(_ context.Context, a guard.Attempt) (guard.Outcome, error) {
		if !a.Recovering {
			t.Errorf("attempt: %+v", a)
		}
		return done, nil
	}))
	if !slices.Contains(s.get("a").Finalizers, own) {
		t.Error("the finalizer is gone")
	}
}
