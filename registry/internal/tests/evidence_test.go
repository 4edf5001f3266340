// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

var must = testkit.Must

// going is the kind of parents in an API server whose definition and Namespaces a test deletes.
type going struct {
	client.Client
	t    *testing.T
	kind schema.GroupVersionKind
	crd  *apiextensionsv1.CustomResourceDefinition
}

func newGoing(t *testing.T) *going {
	t.Helper()
	c := fleettest.Client(t, fleettest.Cluster(t, "going"), apiextensionsv1.AddToScheme)
	g := &going{Client: c, t: t, kind: schema.GroupVersionKind{Group: "evidence.example.com", Version: "v1", Kind: "Parent"}}
	g.crd = &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "parents.evidence.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: g.kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "parents", Singular: "parent", Kind: g.kind.Kind, ListKind: "ParentList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
	must(t, c.Create(t.Context(), g.crd))
	return g
}

// parent creates a parent that finalizers keep, in a Namespace.
func (g *going) parent(namespace, name string) *unstructured.Unstructured {
	g.t.Helper()
	must(g.t, client.IgnoreAlreadyExists(g.Create(g.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})))
	p := &unstructured.Unstructured{}
	p.SetGroupVersionKind(g.kind)
	p.SetNamespace(namespace)
	p.SetName(name)
	p.SetFinalizers([]string{"example.com/keep"})
	testkit.Eventually(g.t, func() error { return g.Create(g.t.Context(), p) }) // The API server serves a new kind after a moment.
	return p
}

// deleted deletes an object, and returns it as it is then.
func (g *going) deleted(object client.Object) client.Object {
	g.t.Helper()
	must(g.t, g.Delete(g.t.Context(), object))
	testkit.Eventually(g.t, func() error {
		err := g.Get(g.t.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil && object.GetDeletionTimestamp() == nil {
			err = errors.New("it is not being deleted")
		}
		return err
	})
	return object
}

// A deletion is evidence unless what the object depends on is gone, younger than the object, or was deleted before the object or in the
// same second.
func TestPlace_OnPurpose(t *testing.T) {
	t.Parallel()
	g := newGoing(t)
	place := evidence.Place{Reader: g, Mapper: g.RESTMapper()}
	expect := func(what string, object client.Object, want bool) {
		t.Helper()
		err := place.OnPurpose(t.Context(), g.kind, object)
		if isNone := errors.Is(err, evidence.ErrNone); err != nil && !isNone || isNone == want {
			t.Errorf("%s: %v", what, err)
		}
	}
	before := g.deleted(g.parent("stays", "before"))
	expect("an object that is deleted", before, true)
	old := before.DeepCopyObject().(client.Object)
	old.SetCreationTimestamp(metav1.NewTime(g.crd.CreationTimestamp.Add(-time.Second)))
	expect("an object that is older than its definition", old, false)
	expect("an object whose Namespace is gone", &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "none", CreationTimestamp: before.GetCreationTimestamp(),
	}}, false)
	unknown := before.DeepCopyObject().(client.Object)
	if err := place.OnPurpose(t.Context(), schema.GroupVersionKind{Group: "other.example.com", Version: "v1", Kind: "Parent"}, unknown); !errors.Is(err, evidence.ErrNone) {
		t.Errorf("an object of a kind that is not served: %v", err)
	}

	with := g.parent("goes", "with")
	earlier := g.deleted(g.parent("goes", "earlier"))
	// The timestamps of Kubernetes have seconds.
	testkit.Until(g.t, "two seconds have passed", func() bool { return time.Since(earlier.GetDeletionTimestamp().Time) >= 2*time.Second })
	g.deleted(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "goes"}})
	expect("an object whose Namespace is being deleted", with, false)
	expect("an object that is deleted after its Namespace", g.deleted(with), false)
	expect("an object that was deleted before its Namespace", earlier, true)

	stays := g.parent("stays", "stays")
	g.deleted(g.crd)
	testkit.Eventually(g.t, func() error { // The API server deletes all objects of the kind.
		if err := g.Get(g.t.Context(), client.ObjectKeyFromObject(stays), stays); err != nil || stays.GetDeletionTimestamp() != nil {
			return err
		}
		return fmt.Errorf("%s is not being deleted", stays.GetName())
	})
	expect("an object that is deleted with its definition", stays, false)
	expect("an object that was deleted before its definition", before, true)
	owned := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "stays", CreationTimestamp: stays.GetCreationTimestamp(),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "evidence.example.com/v1", Kind: "Parent", Name: "stays"}},
	}}
	if err := place.OnPurpose(t.Context(), corev1.SchemeGroupVersion.WithKind("ConfigMap"), owned); !errors.Is(err, evidence.ErrNone) {
		t.Errorf("an object whose owner goes with its definition: %v", err)
	}
}
