// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A remote can send an object that makes a decoder panic in a goroutine of client-go. A hub that configures client-go
// not to crash survives the panic, as this test does in a process of its own: the app receives no more objects of that
// kind from the remote, and everything else continues.
func TestContain_Decoders(t *testing.T) {
	fleettest.Slow(t, "./registry/internal/tests TestInformer_Panics")
	t.Parallel()
	if os.Getenv(surviving) == "" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestContain_Decoders$", "-test.v")
		again.Env = append(os.Environ(), surviving+"=yes")
		if output, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		return
	}
	var seen sync.Map // by name
	expectSeen := func(name string) {
		t.Helper()
		eventually(t, func() error {
			if _, ok := seen.Load(name); !ok {
				return errors.New(name + " has not been seen")
			}
			return nil
		})
	}
	w := newWard(t, func(_ *ward, p registry.Remote) error {
		return ctrl.NewControllerManagedBy(p.Manager).Named("broken").For(&grenade{}).Complete(reconcile.Func(
			func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
				seen.Store(r.Name, true)
				return ctrl.Result{}, nil
			}))
	}, func(o *registry.Options) {
		o.Scheme.AddKnownTypeWithName(grenades.WithKind("Grenade"), &grenade{})
		o.Scheme.AddKnownTypeWithName(grenades.WithKind("GrenadeList"), &grenadeList{})
		metav1.AddToGroupVersion(o.Scheme, grenades)
		for _, c := range fleettest.Clusters(t, "one", "two") {
			installGrenades(t, c)
		}
	})
	stop := w.observe(t)
	throw(t, w.sick, newGrenade("first", false))
	expectSeen("first")
	throw(t, w.sick, newGrenade("armed", true))
	expectSeenBy(t, w.sick, newConfigMap(t, w.sick), sick)

	t.Run("a new app says what is in its way", func(t *testing.T) {
		if err := w.Stop(t.Context(), sick); err != nil {
			t.Fatalf("Stop: %v", err)
		}
		if err := w.Ensure(sick, configFor(t, w.sick.Kubeconfig())); err != nil {
			t.Fatalf("Ensure: %v", err)
		}
		info := expectState(t, w.Registry, sick, state.StateStarting, state.ReasonWaiting)
		if !strings.Contains(info.Message, "grenade") || !strings.Contains(info.Message, "broken") {
			t.Errorf("got message %q, want the kind and the module", info.Message)
		}
		expectSeenBy(t, w.sick, newConfigMap(t, w.sick), sick)
	})
	t.Run("it recovers when the object is gone", func(t *testing.T) {
		if err := clientFor(t, w.sick).Delete(t.Context(), newGrenade("armed", true)); err != nil {
			t.Fatalf("Delete: %v", err)
		}
		expectState(t, w.Registry, sick, state.StateReady, state.ReasonReady)
		throw(t, w.sick, newGrenade("last", false))
		expectSeen("last")
	})
	stop()
}

var grenades = schema.GroupVersion{Group: "test.clusterfx.dev", Version: "v1"}

// grenade is an object whose decoder panics if it is armed.
type grenade struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Armed             bool `json:"armed,omitempty"`
}

// UnmarshalJSON panics if the grenade is armed.
func (g *grenade) UnmarshalJSON(data []byte) error {
	type plain grenade
	if err := json.Unmarshal(data, (*plain)(g)); err != nil {
		return err
	}
	if g.Armed {
		panic("boom")
	}
	return nil
}

// DeepCopyObject implements runtime.Object.
func (g *grenade) DeepCopyObject() runtime.Object {
	return &grenade{g.TypeMeta, *g.DeepCopy(), g.Armed}
}

type grenadeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []grenade `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *grenadeList) DeepCopyObject() runtime.Object {
	c := &grenadeList{TypeMeta: l.TypeMeta, ListMeta: *l.DeepCopy()}
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*grenade))
	}
	return c
}

func newGrenade(name string, armed bool) *unstructured.Unstructured {
	g := &unstructured.Unstructured{Object: map[string]any{"armed": armed}}
	g.SetGroupVersionKind(grenades.WithKind("Grenade"))
	g.SetName(name)
	return g
}

func throw(t *testing.T, c *fleet.Cluster, g *unstructured.Unstructured) {
	t.Helper()
	direct := clientFor(t, c)
	eventually(t, func() error { return direct.Create(t.Context(), g.DeepCopy()) }) // The API may not be served yet.
}

func installGrenades(t *testing.T, c *fleet.Cluster) {
	t.Helper()
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": grenades.Group, "scope": "Cluster",
		"names": map[string]any{"kind": "Grenade", "listKind": "GrenadeList", "plural": "grenades", "singular": "grenade"},
		"versions": []any{map[string]any{
			"name": grenades.Version, "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"armed": map[string]any{"type": "boolean"}},
			}},
		}},
	}}}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("grenades." + grenades.Group)
	direct := clientFor(t, c)
	if err := direct.Create(t.Context(), crd); err != nil {
		t.Fatalf("create the CRD: %v", err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(grenades.WithKind("GrenadeList"))
	eventually(t, func() error { return clientFor(t, c).List(t.Context(), list) })
}
