// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
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
		if err := r.Ensure("a", config); err != nil {
			t.Fatal(err)
		}
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

// A controller whose kind has no object in the remote gets the initial request of its source once, and again after an
// error.
func TestInitialRequest(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	first := ctrl.Request{}
	first.Name = "the remote"
	lonely := registry.NewModule("lonely", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return ctrl.NewControllerManagedBy(p.Manager).Named("lonely").
			Watches(&corev1.PersistentVolume{}, &handler.EnqueueRequestForObject{}).
			WatchesRawSource(watch.InitialRequest(first)).
			Complete(reconcile.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, r.Name)
				if len(seen) < 2 {
					return ctrl.Result{}, errors.New("tried again, as any other request")
				}
				return ctrl.Result{}, nil
			}))
	})})
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{lonely} })
	if err := r.Ensure("a", configFor(t, fleettest.Cluster(t, "one").Kubeconfig())); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 2 || seen[0] != first.Name {
			return fmt.Errorf("got requests %q, want the initial request and its retry", seen)
		}
		return nil
	})
}
