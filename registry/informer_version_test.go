// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/fx"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A CRD that no longer serves the watched version is reported, even if the module requires no kinds.
func TestStale_AnotherVersion(t *testing.T) {
	t.Parallel()
	one := fleettest.Cluster(t, "one")
	kind := schema.GroupVersionKind{Group: "stale.example.dev", Version: "v1", Kind: "Widget"}
	serve := installWidgets(t, one, kind.Group)
	r, _ := soonStale(t, intolerant, widgets(kind))
	f, config := newFront(t, one)
	spawn(t, r, "edge", config)
	serve(false)
	// An API server ends the watches of a removed version at an arbitrary time. The front ends them now.
	f.set(at("/apis/stale.example.dev/v1/widgets"), nil)
	expectStale(t, r, "edge", metav1.ConditionFalse, "Widget.stale.example.dev", "status 404")
	serve(true)
	expectApp(t, r, "edge", metav1.ConditionTrue, state.ReasonRunning)
}

// installWidgets installs a CRD with two versions, and returns a function that sets whether the first is served.
func installWidgets(t *testing.T, c *fleet.Cluster, group string) func(bool) {
	t.Helper()
	any := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	version := func(name string, served, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: served, Storage: stored,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &any},
		}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true, false), version("v2", true, true)},
		},
	}
	direct := clientFor(t, c)
	must(t, apiextensionsv1.AddToScheme(direct.Scheme()))
	must(t, direct.Create(t.Context(), crd))
	t.Cleanup(func() {
		if err := direct.Delete(context.WithoutCancel(t.Context()), crd); err != nil {
			t.Error(err)
		}
	})
	expectServed := func(want bool) {
		eventually(t, func() error {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "WidgetList"})
			fresh := clientFor(t, c) // A client caches discovery.
			if err := fresh.List(t.Context(), list); (err == nil) != want {
				return fmt.Errorf("served: %w, want %t", err, want)
			}
			return nil
		})
	}
	expectServed(true)
	return func(served bool) {
		before := crd.DeepCopy()
		crd.Spec.Versions[0].Served = served
		must(t, direct.Patch(t.Context(), crd, client.MergeFrom(before)))
		expectServed(served)
	}
}

func widgets(kind schema.GroupVersionKind) registry.Module {
	return registry.NewModule("widgets", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		one := &unstructured.Unstructured{}
		one.SetGroupVersionKind(kind)
		return ctrl.NewControllerManagedBy(p.Manager).Named("widgets").For(one).Complete(idle())
	})})
}
