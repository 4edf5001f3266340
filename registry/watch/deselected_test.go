// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// mapped records the remotes for which each object was mapped.
type mapped struct {
	mu   sync.Mutex // protects seen
	seen map[watch.Request]bool
}

func (m *mapped) options(t *testing.T) watch.Options[client.Object] {
	t.Helper()
	return watch.Options[client.Object]{
		Predicates: ofTest(t), TellLost: true,
		Select: func(info state.Status) bool { return info.Labels["watch"] != "no" },
		Map: func(_ context.Context, name state.ClusterName, obj client.Object) []watch.Request {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.seen[in(name, client.ObjectKeyFromObject(obj))] = true
			return nil
		},
	}
}

func (m *mapped) has(r watch.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[r]
}

// The watch of a remote ends when the remote is no longer selected, although its app keeps running.
func TestRemotes_Deselected(t *testing.T) {
	t.Parallel()
	one := fleettest.Cluster(t, "one")
	m := mapped{seen: map[watch.Request]bool{}}
	r := record{}
	h := newHub(t, watching(&r, m.options(t), &corev1.ConfigMap{}))
	// expectMapped waits until an object was mapped for a remote, and is in its cache.
	expectMapped := func(name, by state.ClusterName, key types.NamespacedName) {
		eventually(t, func() error {
			if !m.has(in(by, key)) {
				return fmt.Errorf("%s of %s was not mapped", key, by)
			}
			return h.remotes.WithClient(t.Context(), name, func(ctx context.Context, c client.Client) error {
				return c.Get(ctx, key, &corev1.ConfigMap{})
			})
		})
	}
	h.register(t, "stays", one)
	h.register(t, "changes", one)
	key := create(t, one, newConfigMap(t))
	expectMapped("changes", "changes", key)
	expectMapped("stays", "stays", key)

	config := configFor(t, one.Kubeconfig())
	config.Labels = map[string]string{"watch": "no"}
	must(t, h.remotes.Ensure("changes", config))
	r.expect(t, watch.Request{Cluster: "changes", Lost: true}, 0)
	for range 10 {
		key := create(t, one, newConfigMap(t))
		expectMapped("changes", "stays", key)
		if m.has(in("changes", key)) {
			t.Fatalf("%s was mapped for a remote that is no longer selected", key)
		}
	}
}
