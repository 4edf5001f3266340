// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// A remote that another replica takes over is not lost. A remote that leaves the hub is lost, also if the hub may not write at
// that moment, and also if it was elsewhere before.
func TestRemotes_Elsewhere(t *testing.T) {
	t.Parallel()
	var isElsewhere, isClosed atomic.Bool
	gate := func(name state.ClusterName) (int64, error) {
		switch {
		case name == "moves" && isElsewhere.Load():
			return 0, fmt.Errorf("%s: %w: hub-1", name, registry.ErrElsewhere)
		case isClosed.Load():
			return 0, fmt.Errorf("%s: %w", name, registry.ErrStandby)
		}
		return 0, nil
	}
	one := fleettest.Cluster(t, "one")
	key := create(t, one, newConfigMap(t))
	var r record
	h := newHubBehind(t, gate, watching(&r, watch.Options[client.Object]{Predicates: ofTest(t), TellLost: true}, &corev1.ConfigMap{}))
	stop := func(name state.ClusterName) {
		t.Helper()
		must(t, h.remotes.Stop(t.Context(), name))
	}
	lost := func(name state.ClusterName) watch.Request { return watch.Request{Cluster: name, Lost: true} }
	for _, name := range []state.ClusterName{"moves", "leaves", "last"} {
		h.register(t, name, one)
		r.expect(t, in(name, key), 0)
	}
	isElsewhere.Store(true)
	stop("moves")
	isClosed.Store(true)
	for _, name := range []state.ClusterName{"leaves", "last"} { // The event of the first may be taken before that of moves.
		stop(name)
		r.expect(t, lost(name), 0)
	}
	if got := r.count(lost("moves")); got > 0 {
		t.Errorf("got %d requests with Lost of a remote that another replica runs, want 0", got)
	}
	isElsewhere.Store(false)
	before := r.count(in("moves", key))
	h.register(t, "moves", one)
	r.expect(t, in("moves", key), before)
	stop("moves")
	r.expect(t, lost("moves"), 0)
}
