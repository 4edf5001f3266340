// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// A remote makes a request without an object each time it becomes Ready, and when it is selected.
func TestBuilder_WatchesRemotes(t *testing.T) {
	t.Parallel()
	edge := labels.SelectorFromSet(labels.Set{"tier": "edge"})
	var all, some record
	h := newHub(t, func(h *hub) error {
		if err := watch.ControllerManagedBy(h, h.remotes).Named("all").WatchesRemotes(nil).Complete(&all); err != nil {
			return err
		}
		return watch.ControllerManagedBy(h, h.remotes).Named("some").
			WatchesRemotes(state.MatchLabels(edge)).Complete(&some)
	})
	one := fleettest.Cluster(t, "one")
	h.register(t, "a", one)
	of := watch.Request{Cluster: "a"}
	all.expect(t, of, 0)

	ensure := func(change func(*state.Desired)) {
		t.Helper()
		config := configFor(t, one.Kubeconfig())
		change(&config)
		must(t, h.remotes.Ensure("a", config))
	}
	ensure(func(c *state.Desired) { c.Labels = map[string]string{"tier": "edge"} })
	some.expect(t, of, 0)
	if got := all.count(of); got != 1 {
		t.Errorf("got %d requests for another label without a selector, want 0", got-1)
	}
	before := some.count(of)
	ensure(func(c *state.Desired) { c.Paused = true })
	h.expectState(t, "a", state.StatePaused)
	if got := some.count(of); got != before {
		t.Errorf("got %d requests of a paused remote, want 0", got-before)
	}
	ensure(func(c *state.Desired) { c.Labels = map[string]string{"tier": "edge"} })
	some.expect(t, of, before)
	all.expect(t, of, 1)
}
