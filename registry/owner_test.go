// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"sync"
	"testing"

	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A module gets an owner reference to its Cluster. When another Cluster replaces that Cluster, another app replaces the
// app, because new objects for the old UID would be deleted at once.
func TestInfo_Owner(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []types.UID
	owned := registry.NewModule("owned", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, p.Status.Owner.UID)
	})})
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{owned} })
	config := configFor(t, fleettest.Cluster(t, "one").Kubeconfig())
	config.Owner = metav1.OwnerReference{APIVersion: "clusterfx.dev/v1alpha1", Kind: "Cluster", Name: "a", UID: "first"}
	ensure := func() {
		t.Helper()
		must(t, r.Ensure("a", config))
	}
	expect := func(epochs int, uid types.UID) {
		t.Helper()
		eventually(t, func() error {
			info, _ := r.Status("a")
			mu.Lock()
			defer mu.Unlock()
			if info.State != state.StateReady || info.Owner != config.Owner || len(seen) < epochs {
				return fmt.Errorf("got %s with owner %v, and UIDs %v in apps", info.State, info.Owner, seen)
			}
			if len(seen) > epochs || seen[epochs-1] != uid {
				t.Errorf("got UIDs %v in apps, want %d with %q as the last", seen, epochs, uid)
			}
			return nil
		})
	}
	ensure()
	expect(1, "first")
	config.Owner.UID = "second"
	ensure()
	expect(2, "second")
}
