// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/examples/vcluster/crdsync"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

var car = schema.GroupVersionKind{Group: "vehicles.example.com", Version: "v1", Kind: "Car"}

func newCar(namespace, name string, seats int64) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"seats": seats}}}
	u.SetGroupVersionKind(car)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func TestCRDSync(t *testing.T) {
	t.Parallel()
	up := fleettest.Client(t, fleettest.Cluster(t, "up"))
	crd := fleettest.CRD(t, car, "")
	create(t, up, crd)
	waitFor(t, up, crd, func() error {
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return expect(crd.Status.Conditions, "Established")
	})
	p := start(t, func(p *pair) []syncer.Item { return []syncer.Item{crdsync.Item(p.id, car)} })

	theirs := newCar(p.downNS, p.downName("taken"), 1)
	create(t, p.down, theirs)
	create(t, p.up, newCar(p.upNS, "taken", 2))
	original := newCar(p.upNS, "a", 2)
	create(t, p.up, original)
	copied := newCar(p.downNS, p.downName("a"), 0)
	seats := func(want int64) func() error {
		return func() error {
			got, _, err := unstructured.NestedInt64(copied.Object, "spec", "seats")
			must(t, err)
			return expect(got, want)
		}
	}
	waitFor(t, p.down, copied, seats(2))

	// A later change of the spec goes down, and the status does not.
	must(t, unstructured.SetNestedField(original.Object, "parked", "status", "state"))
	must(t, p.up.Status().Update(t.Context(), original))
	patch(t, p.up, original, `{"spec":{"seats":4}}`)
	waitFor(t, p.down, copied, seats(4))
	must(t, expect(copied.Object["status"], nil))

	must(t, p.up.Delete(t.Context(), original))
	fleettest.Gone(t, p.down, copied)
	p.conflict(t, "taken")
	unchanged(t, p.down, theirs)
}
