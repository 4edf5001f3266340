// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

var gadgets = schema.GroupVersionKind{Group: "hubwatch.example.com", Version: "v1", Kind: "Gadget"}

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

func tombstone(t *testing.T, s *Subscription, name string) Tombstone {
	t.Helper()
	var found Tombstone
	eventually(t, func() error {
		one, ok := s.Deleted(client.ObjectKey{Namespace: "default", Name: name})
		if found = one; !ok {
			return errors.New(name + " has no tombstone")
		}
		return nil
	})
	return found
}

func expectDeleted(t *testing.T, s *Subscription, what string, of Tombstone, want bool) {
	t.Helper()
	if got, err := s.IsDeleted(t.Context(), of); err != nil || got != want {
		t.Errorf("%s: deleted: %t, %v; want %t", what, got, err, want)
	}
}

// A watch reports an object without the selected label as deleted; the API server tells the two apart.
func TestSubscription_IsDeleted(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	l, c := newLine(t, hub), clientOf(t, hub)
	p := newPool(t, l)
	gone, unlabeled := configMap("default", "c-gone", "confirm", "a"), configMap("default", "c-unlabeled", "confirm", "a")
	create(t, c, gone, unlabeled)
	s := subscribe(t, p, configMaps("confirm"), wants(byTo, "a"))
	expectNames(t, s, "c-gone", "c-unlabeled")
	unlabeled.Labels = nil
	must(t, errors.Join(c.Delete(t.Context(), gone), c.Update(t.Context(), unlabeled)))
	deleted, lost := tombstone(t, s, "c-gone"), tombstone(t, s, "c-unlabeled")
	if !deleted.Seen || !lost.Seen {
		t.Fatalf("seen: %t and %t", deleted.Seen, lost.Seen)
	}
	expectDeleted(t, s, "a deleted object", deleted, true)
	expectDeleted(t, s, "an object without the label", lost, false)
	expectDeleted(t, s, "an object that no watch has reported", Tombstone{Object: deleted.Object}, false)
	create(t, c, configMap("default", "c-gone", "other", "a"))
	expectDeleted(t, s, "another object of the name", deleted, true)
	l.set(func() { l.cut = true })
	if got, err := s.IsDeleted(t.Context(), deleted); err == nil || got {
		t.Errorf("without the hub: %t, %v", got, err)
	}
}

// An API server deletes the objects of a kind with its definition. That is no delete of the object: not while the
// definition is being deleted, not when it has gone, and not when it was made again.
func TestSubscription_IsDeleted_Definition(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	p, c := newPool(t, newLine(t, hub)), clientOf(t, hub)
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
	s := subscribe(t, p, Selection{Object: empty, Kind: gadgets, Namespaced: true}, wants(byTo, "a"))
	eventually(t, func() error {
		var all metav1.PartialObjectMetadataList
		if err := s.List(t.Context(), &all); err != nil || len(all.Items) != 3 {
			return fmt.Errorf("%d objects, %w", len(all.Items), err)
		}
		return nil
	})
	must(t, c.Delete(t.Context(), gadget("deleted")))
	deleted := tombstone(t, s, "deleted")
	expectDeleted(t, s, "a deleted object", deleted, true)

	must(t, c.Delete(t.Context(), gadgetCRD()))
	removed := tombstone(t, s, "removed")
	if !removed.Seen {
		t.Fatal("the removal was not reported")
	}
	expectDeleted(t, s, "while the definition is being deleted", removed, false)
	must(t, c.Patch(t.Context(), gadget("keeper"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	eventually(t, func() error {
		crd := gadgetCRD()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the definition exists: %w", err)
		}
		return nil
	})
	expectDeleted(t, s, "without the definition", removed, false)
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
	expectDeleted(t, s, "with another definition", removed, false)
}
