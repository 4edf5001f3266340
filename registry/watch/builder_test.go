// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// An object of the hub is reconciled when it changes, and when an object that it owns in a remote changes.
func TestBuilder_OwnsRemote(t *testing.T) {
	t.Parallel()
	hubCluster, one := fleettest.Cluster(t, "hub"), fleettest.Cluster(t, "one")
	var r record
	h := newHub(t, func(h *hub) error {
		return watch.ControllerManagedBy(h, h.remotes).
			For(&corev1.ConfigMap{}, ofTest(t)...).
			OwnsRemote(&corev1.Secret{}, watch.Options[client.Object]{}).
			Complete(&r)
	})
	h.register(t, "one", one)
	owner := newConfigMap(t)
	key := create(t, hubCluster, owner)
	request := watch.Request{NamespacedName: key}
	r.expect(t, request, 0)

	secret := &corev1.Secret{}
	secret.Namespace, secret.GenerateName = "default", "owned-"
	must(t, watch.SetOwner(owner, secret, h.GetScheme()))
	before := r.count(request)
	direct := clientFor(t, one)
	must(t, direct.Create(t.Context(), secret))
	r.expect(t, request, before)
	before = r.count(request)
	delete(secret.Annotations, watch.OwnerAnnotation) // The former owner must be reconciled.
	must(t, direct.Update(t.Context(), secret))
	r.expect(t, request, before)
	if r.count(watch.Request{Cluster: "one", NamespacedName: client.ObjectKeyFromObject(secret)}) > 0 {
		t.Error("got a request for the remote's object, want requests for its owner only")
	}
}

func TestSetOwner(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	owner, other, object := &corev1.ConfigMap{}, &corev1.ConfigMap{}, &corev1.Secret{}
	owner.Namespace, owner.Name = "ns", "owner"
	other.Namespace, other.Name = "ns", "other"
	for range 2 {
		must(t, watch.SetOwner(owner, object, scheme))
	}
	testkit.Equal(t, object.Annotations[watch.OwnerAnnotation], "ConfigMap/ns/owner", "annotation")
	testkit.ErrorHas(t, watch.SetOwner(other, object, scheme), "ConfigMap/ns/owner", "SetOwner with a second owner")
	if err := watch.SetOwner(owner, &corev1.Secret{}, runtime.NewScheme()); err == nil {
		t.Error("SetOwner accepts an owner of an unknown kind")
	}
}

func TestBuilder_Refuses(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(*hub) error { return nil })
	nothing := watch.Options[client.Object]{}
	for want, b := range map[string]*watch.Builder{
		"nothing is watched":         watch.ControllerManagedBy(h, h.remotes).Named("x"),
		"call Named":                 watch.ControllerManagedBy(h, h.remotes).WatchesRemote(&corev1.Pod{}, nothing),
		"call For first":             watch.ControllerManagedBy(h, h.remotes).Named("x").OwnsRemote(&corev1.Pod{}, nothing),
		"For was called twice":       watch.ControllerManagedBy(h, h.remotes).For(&corev1.Pod{}).For(&corev1.Secret{}),
		`controller "x": call For f`: watch.ControllerManagedBy(h, h.remotes).Named("x").OwnsRemote(&corev1.Pod{}, nothing),
	} {
		if err := b.Complete(&record{}); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "OwnsRemote: ", ""), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// While other remotes are registered and stopped, no event of a remote is lost.
func TestRemotes_Churn(t *testing.T) {
	t.Parallel()
	const cycles = 20
	one, two := fleettest.Cluster(t, "one"), fleettest.Cluster(t, "two")
	var r record
	h := newHub(t, watching(&r, watch.Options[client.Object]{Predicates: ofTest(t)}, &corev1.ConfigMap{}))
	h.register(t, "stays", one)
	direct := clientFor(t, one)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range cycles {
			config := configFor(t, two.Kubeconfig())
			name := state.ClusterName([]string{"comes", "goes"}[i%2])
			if err := h.remotes.Ensure(name, config); err != nil {
				t.Errorf("Ensure: %v", err)
			}
			if i%3 > 0 { // The other remotes are stopped while they start.
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if err := h.remotes.WaitReady(ctx, name); err != nil {
					t.Errorf("WaitReady: %v", err)
				}
				cancel()
			}
			if err := h.remotes.Stop(t.Context(), name); err != nil {
				t.Errorf("Stop: %v", err)
			}
		}
	}()
	written := 0
	for churning := true; churning; written++ {
		select {
		case <-done:
			churning = false
		default:
		}
		key := create(t, one, newConfigMap(t))
		r.expect(t, in("stays", key), 0)
		gone := &corev1.ConfigMap{}
		gone.Namespace, gone.Name = key.Namespace, key.Name
		before := r.count(in("stays", key))
		must(t, direct.Delete(t.Context(), gone))
		r.expect(t, in("stays", key), before)
	}
	t.Logf("%d objects were written and deleted during %d cycles", written, cycles)
}
