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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A module that requires a kind waits while the other modules run, starts when the kind is served, and is stopped when
// the kind is removed. The other modules keep running, leases never fail, and the app has no failures.
func TestSelector_APIComesAndGoes(t *testing.T) {
	t.Parallel()
	c, config := remote(t, "one")
	sprockets := schema.GroupVersionKind{Group: "comes.example.com", Version: "v1", Kind: "Sprocket"}
	var count counter
	var seen names
	r := newRegistry(t, func(o *registry.Options) {
		o.Hasten()
		o.Modules = []registry.Module{count.module(), registry.NewModule("sprockets", registry.ModuleOptions{
			Select: registry.Selector{Requires: []schema.GroupVersionKind{sprockets}},
			Remote: fx.Invoke(func(p registry.Remote) error {
				return ctrl.NewControllerManagedBy(p.Manager).Named("sprockets").For(partial(sprockets)).Complete(&seen)
			}),
		})}
	})
	spawn(t, r, "a", config)
	expectModule(t, r, "a", "sprockets", state.ModuleWaiting, state.ReasonAPIMissing)
	expectModule(t, r, "a", "counter", state.ModuleRunning, state.ReasonRunning)
	failed := lendAllTheTime(t, r, "a")

	crd := installCRD(t, c, sprockets)
	one := &unstructured.Unstructured{}
	one.SetGroupVersionKind(sprockets)
	one.SetName("one")
	one.SetNamespace("default")
	eventually(t, func() error { return clientFor(t, c).Create(t.Context(), one) })
	expectModule(t, r, "a", "sprockets", state.ModuleRunning, state.ReasonRunning)
	eventually(t, func() error { return seen.has("one") })

	must(t, clientFor(t, c).Delete(t.Context(), crd))
	expectModule(t, r, "a", "sprockets", state.ModuleWaiting, state.ReasonAPIMissing)
	expectSeenBy(t, c, newConfigMap(t, c), "a")
	info := expectState(t, r, "a", state.StateReady, state.ReasonReady)
	if info.Restarts != 0 || info.Epoch != 3 {
		t.Errorf("got %d restarts and epoch %d, want 0, and the third epoch: without, with, without the module", info.Restarts, info.Epoch)
	}
	if err := failed(); err != nil {
		t.Errorf("WithClient: %v", err)
	}
}

// names is a reconciler that records the names of its objects.
type names struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (n *names) Reconcile(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[r.Name] = true
	return reconcile.Result{}, nil
}

func (n *names) has(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.seen[name] {
		return fmt.Errorf("got no request for %s, only for %v", name, n.seen)
	}
	return nil
}

func partial(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	p := &metav1.PartialObjectMetadata{}
	p.SetGroupVersionKind(kind)
	return p
}

// expectModule waits until a module of a remote is in a state for a reason.
func expectModule(t testing.TB, r *registry.Registry, cluster registry.ClusterName, module, want, reason string) state.ModuleStatus {
	t.Helper()
	var found state.ModuleStatus
	eventually(t, func() error {
		info, _ := r.Status(cluster)
		for _, m := range info.Modules {
			if found = m; m.Name == module && m.State == want && m.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("want %s %s (%s), got %v", module, want, reason, info.Modules)
	})
	return found
}

// lendAllTheTime leases the client of a remote repeatedly, until the function that it returns is called, which returns the failures.
func lendAllTheTime(t testing.TB, r *registry.Registry, name registry.ClusterName) (failed func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		var failures []error
		for ctx.Err() == nil {
			err := r.WithClient(ctx, name, func(ctx context.Context, c client.Client) error {
				return c.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{})
			})
			if err != nil && ctx.Err() == nil {
				failures = append(failures, err)
			}
		}
		done <- errors.Join(failures...)
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// installCRD makes a remote serve a namespaced kind whose schema allows everything. It returns the CRD.
func installCRD(t testing.TB, c *fleet.Cluster, kind schema.GroupVersionKind) client.Object {
	t.Helper()
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": kind.Group, "scope": "Namespaced",
		"names": map[string]any{"kind": kind.Kind, "plural": plural.Resource},
		"versions": []any{map[string]any{
			"name": kind.Version, "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}},
		}},
	}}}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(plural.Resource + "." + kind.Group)
	must(t, clientFor(t, c).Create(t.Context(), crd))
	return crd
}
