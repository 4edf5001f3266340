// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// copies registers a Copy of ConfigMaps with names that NewNamespaced translates.
func (b *bench) copies(t *testing.T, o syncer.Options[*corev1.ConfigMap]) {
	t.Helper()
	if o.Select == nil {
		o.Select = func(up *corev1.ConfigMap) bool { return up.Namespace == b.upNS && up.Name != "kube-root-ca.crt" }
	}
	c := &syncer.Copy[*corev1.ConfigMap]{Called: "configmaps"}
	err := syncer.Register(b.pair, c, syncer.NewNamespaced[*corev1.ConfigMap](b.pair.Identity(), syncer.TranslatorOptions{}), o)
	must(t, err)
}

func (b *bench) original(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.upNS, Name: name}, Data: data}
}

func (b *bench) copyOf(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.downNS, Name: name + "-x-" + b.upNS + "-x-" + b.upNS}}
}

func (b *bench) wait(t *testing.T, name string, data map[string]string) *corev1.ConfigMap {
	t.Helper()
	found := b.copyOf(name)
	eventually(t, func() error {
		if err := b.down.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			return err
		}
		if fmt.Sprint(found.Data) != fmt.Sprint(data) {
			return fmt.Errorf("got %v, want %v", found.Data, data)
		}
		return nil
	})
	return found
}

// An object is copied, follows changes on both sides, and is deleted with its original.
// Promise: watches: requests have the names of upstream objects; an event of a copy requests its original; objects of others request nothing but the original that waits for their name.
func TestCopy(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1", "l": "1"})
	must(t, b.up.Create(t.Context(), up))
	found := b.wait(t, "a", map[string]string{"k": "1", "l": "1"})

	// Another client downstream: a new field stays, a changed field is changed back.
	found.Data["k"], found.Data["theirs"] = "2", "3"
	must(t, b.down.Update(t.Context(), found))
	b.wait(t, "a", map[string]string{"k": "1", "l": "1", "theirs": "3"})

	// A field that the original loses is lost downstream.
	must(t, b.up.Patch(t.Context(), up, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"l":null,"k":"4"}}`))))
	b.wait(t, "a", map[string]string{"k": "4", "theirs": "3"})

	// A deleted copy is made again.
	must(t, b.down.Delete(t.Context(), b.copyOf("a")))
	b.wait(t, "a", map[string]string{"k": "4"})

	must(t, b.up.Delete(t.Context(), up))
	fleettest.Gone(t, b.down, b.copyOf("a"))
	fleettest.Gone(t, b.up, up)
}
