// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/clusterfx/clusterfx/registry"
)

// A module removes an informer that it needs no more only if no other module uses the kind, and no handler is left.
func TestCache_RemoveInformer(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	var one, other asking
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{one.module("one"), other.module("other")} })
	spawn(t, r, "removing", config)
	informer := func(of *asking) ctrlcache.Informer {
		t.Helper()
		found, err := of.app().Cache.GetInformer(t.Context(), &corev1.ConfigMap{})
		must(t, err)
		return found
	}
	first := informer(&one)
	handle, err := first.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
	must(t, err)
	must(t, one.app().Cache.RemoveInformer(t.Context(), &corev1.ConfigMap{}))
	if first.IsStopped() {
		t.Fatal("an informer with a handler was removed")
	}
	must(t, first.RemoveEventHandler(handle))
	must(t, one.app().Cache.RemoveInformer(t.Context(), &corev1.ConfigMap{}))
	eventually(t, func() error {
		if !first.IsStopped() {
			return errors.New("the informer runs")
		}
		return nil
	})

	second := informer(&one)
	informer(&other)
	must(t, one.app().Cache.RemoveInformer(t.Context(), &corev1.ConfigMap{}))
	if second.IsStopped() {
		t.Error("the informer of another module was removed")
	}
}
