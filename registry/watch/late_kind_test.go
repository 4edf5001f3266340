// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// A remote that does not serve a kind yet is watched as soon as it does, without any action by a user. Until then the
// controller works for the other remotes, the remote is Ready, and other kinds are watched in it.
func TestRemotes_KindAppears(t *testing.T) {
	t.Parallel()
	comet := newKind()
	has, gets := fleettest.Cluster(t, "one"), fleettest.Cluster(t, "two")
	install(t, has, comet)
	var comets, maps record
	h := newHub(t, func(h *hub) error {
		ofTest := watch.Options[client.Object]{Predicates: ofTest(t)}
		return errors.Join(
			watch.ControllerManagedBy(h, h.remotes).Named("comets").
				WatchesRemote(objectOf(comet), watch.Options[client.Object]{}).Complete(&comets),
			watch.ControllerManagedBy(h, h.remotes).Named("maps").
				WatchesRemote(&corev1.ConfigMap{}, ofTest).Complete(&maps),
		)
	})
	h.register(t, "has", has)
	h.register(t, "gets", gets)
	comets.expect(t, in("has", launch(t, has, comet)), 0)
	maps.expect(t, in("gets", create(t, gets, newConfigMap(t))), 0)
	h.expectState(t, "gets", state.StateReady)
	before, _ := h.remotes.Status("gets")

	install(t, gets, comet)
	appeared := launch(t, gets, comet)
	began := time.Now()
	comets.expect(t, in("gets", appeared), 0)
	t.Logf("the kind was watched %s after it appeared", time.Since(began))
	comets.expect(t, in("gets", launch(t, gets, comet)), 0)
	comets.expect(t, in("has", launch(t, has, comet)), 0)
	if after, _ := h.remotes.Status("gets"); after.Epoch != before.Epoch {
		t.Errorf("got epoch %d, want %d without a restart", after.Epoch, before.Epoch)
	}
}

func newKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: strings.ToLower(rand.Text()) + ".example.com", Version: "v1", Kind: "Comet"}
}

func objectOf(kind schema.GroupVersionKind) *unstructured.Unstructured {
	one := &unstructured.Unstructured{}
	one.SetGroupVersionKind(kind)
	return one
}

func install(t *testing.T, c *fleet.Cluster, kind schema.GroupVersionKind) {
	t.Helper()
	crd := objectOf(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName("comets." + kind.Group)
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	crd.Object["spec"] = map[string]any{
		"group": kind.Group, "scope": "Cluster",
		"names": map[string]any{"plural": "comets", "kind": kind.Kind},
		"versions": []any{map[string]any{
			"name": kind.Version, "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": anything},
		}},
	}
	must(t, clientFor(t, c).Create(t.Context(), crd))
}

// launch creates an object of a kind, as soon as the kind is served.
func launch(t *testing.T, c *fleet.Cluster, kind schema.GroupVersionKind) types.NamespacedName {
	t.Helper()
	one := objectOf(kind)
	one.SetGenerateName("test-")
	eventually(t, func() error {
		if err := clientFor(t, c).Create(t.Context(), one); err != nil {
			return fmt.Errorf("create: %w", err)
		}
		return nil
	})
	return client.ObjectKeyFromObject(one)
}
