// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

var gadgets = schema.GroupVersionKind{Group: "hubobjects.example.com", Version: "v1", Kind: "Gadget"}

func gadget(name string) *unstructured.Unstructured {
	one := &unstructured.Unstructured{}
	one.SetGroupVersionKind(gadgets)
	one.SetNamespace("default")
	one.SetName(name)
	one.SetLabels(map[string]string{"to": "a"})
	return one
}

func gadgetCRD() *unstructured.Unstructured {
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": gadgets.Group, "scope": "Namespaced",
		"names": map[string]any{"kind": gadgets.Kind, "plural": "gadgets"},
		"versions": []any{map[string]any{
			"name": gadgets.Version, "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
		}},
	}}}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("gadgets." + gadgets.Group)
	return crd
}

func tombstone(t *testing.T, o *Objects, name string) Tombstone {
	t.Helper()
	var found Tombstone
	eventually(t, func() error {
		one, ok := o.Deleted(client.ObjectKey{Namespace: "default", Name: name})
		if found = one; !ok {
			return errors.New(name + " has no tombstone")
		}
		return nil
	})
	return found
}

// expectDeclared: a context that declares deletes is another one.
func expectDeclared(t *testing.T, what string, of Tombstone, want bool) {
	t.Helper()
	if ctx, err := of.Declare(t.Context()); err != nil || (ctx != t.Context()) != want {
		t.Errorf("%s: declared: %t, %v; want %t", what, ctx != t.Context(), err, want)
	}
}

// A watch reports an object without the selected label as deleted; the API server tells the two apart.
func TestTombstone_Declare(t *testing.T) {
	t.Parallel()
	p, l, c := newPool(t)
	gone, unlabeled := configMap("default", "c-gone", "confirm", "a"), configMap("default", "c-unlabeled", "confirm", "a")
	create(t, c, gone, unlabeled)
	a := newApp(t, p)
	o := a.watch(t, configMaps("confirm", byTo), "a")
	expectNames(t, o, "c-gone", "c-unlabeled")
	unlabeled.Labels = nil
	must(t, errors.Join(c.Delete(t.Context(), gone), c.Update(t.Context(), unlabeled)))
	deleted, lost := tombstone(t, o, "c-gone"), tombstone(t, o, "c-unlabeled")
	if !deleted.Seen || !lost.Seen {
		t.Fatalf("seen: %t and %t", deleted.Seen, lost.Seen)
	}
	expectDeclared(t, "a deleted object", deleted, true)
	expectDeclared(t, "an object without the label", lost, false)
	expectDeclared(t, "an object that no watch has reported", Tombstone{Object: deleted.Object, of: o}, false)
	expectDeclared(t, "no tombstone", Tombstone{}, false)
	create(t, c, configMap("default", "c-gone", "other", "a"))
	expectDeclared(t, "another object of the name", deleted, true)
	l.cut(true)
	if ctx, err := deleted.Declare(t.Context()); err == nil || ctx != t.Context() {
		t.Errorf("without the hub: %t, %v", ctx != t.Context(), err)
	}
	why := errors.New("the app is replaced")
	a.end(why)
	testkit.ErrorIs(t, testkit.Err(deleted.Declare(t.Context())), why)
}

// An API server deletes the objects of a kind with its definition. That is no delete of the object: not while the
// definition is being deleted, not when it has gone, and not when it was made again.
func TestTombstone_Declare_Definition(t *testing.T) {
	t.Parallel()
	p, _, c := newPool(t)
	create(t, c, gadgetCRD())
	keeper := gadget("keeper")
	keeper.SetFinalizers([]string{"example.com/keep"})
	for _, obj := range []client.Object{gadget("deleted"), gadget("removed"), keeper} {
		eventually(t, func() error {
			return client.IgnoreAlreadyExists(c.Create(t.Context(), obj.DeepCopyObject().(client.Object)))
		})
	}
	empty := &metav1.PartialObjectMetadata{}
	empty.SetGroupVersionKind(gadgets)
	o := watch(t, p, Selection{Object: empty, Route: byTo}, "a")
	eventually(t, func() error {
		var all metav1.PartialObjectMetadataList
		if err := o.List(t.Context(), &all); err != nil || len(all.Items) != 3 {
			return fmt.Errorf("%d objects, %w", len(all.Items), err)
		}
		return nil
	})
	must(t, c.Delete(t.Context(), gadget("deleted")))
	deleted := tombstone(t, o, "deleted")
	expectDeclared(t, "a deleted object", deleted, true)

	must(t, c.Delete(t.Context(), gadgetCRD()))
	removed := tombstone(t, o, "removed")
	if !removed.Seen {
		t.Fatal("the removal was not reported")
	}
	expectDeclared(t, "while the definition is being deleted", removed, false)
	must(t, c.Patch(t.Context(), gadget("keeper"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	eventually(t, func() error {
		crd := gadgetCRD()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the definition exists: %w", err)
		}
		return nil
	})
	expectDeclared(t, "without the definition", removed, false)
	eventually(t, func() error { // The definition is younger than the object by a second.
		crd := gadgetCRD()
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), crd)); err != nil {
			return err
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		if now, then := crd.GetCreationTimestamp(), removed.Object.GetCreationTimestamp(); !then.Before(&now) {
			return errors.Join(errors.New("the definition is not younger"), c.Delete(t.Context(), crd))
		}
		var all unstructured.UnstructuredList
		all.SetGroupVersionKind(gadgets)
		return c.List(t.Context(), &all)
	})
	expectDeclared(t, "with another definition", removed, false)
}

// The informer forgets tombstones of a certain age where nothing looks for them, and not the newer one of an object that was deleted
// again.
func TestObjects_OldTombstones(t *testing.T) {
	t.Parallel()
	o := watch(t, offline(t), configMaps("x", All()))
	o.graves.Add("old", Tombstone{}, -time.Second)
	o.graves.Add("young", Tombstone{}, -time.Second)
	o.graves.Add("young", Tombstone{}, gravesFor)
	o.informer.purge(t.Context())
	var kept []any
	o.graves.RemoveAll(func(key any) bool {
		kept = append(kept, key)
		return false
	})
	if !slices.Equal(kept, []any{"young"}) {
		t.Errorf("the tombstones %v are left, want the young one", kept)
	}
}
