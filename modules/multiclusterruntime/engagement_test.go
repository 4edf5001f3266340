// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/multiclusterruntime"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// An Engage that fails, panics or hangs for one remote affects that remote only, and a failed Engage is retried.
func TestProvider_EngageFails(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	key := create(t, c)
	var fails, panics atomic.Int64
	l := lives{do: func(ctx context.Context, name multicluster.ClusterName) error {
		switch {
		case name == "fails" && fails.Add(1) < 3:
			return errors.New("boom")
		case name == "panics" && panics.Add(1) < 3:
			panic("boom")
		case name == "hangs":
			<-ctx.Done()
		}
		return nil
	}}
	var r record
	h := newHub(t, multiclusterruntime.Options{}, func(h *hub) error { return errors.Join(h.Add(&l), watching(t, &r)(h)) })
	for _, name := range []registry.ClusterName{"fails", "panics", "hangs", "healthy"} {
		h.register(t, name, c.Kubeconfig())
	}
	r.expect(t, in("healthy", key), 0)
	r.expect(t, in("fails", key), 0)
	r.expect(t, in("panics", key), 0)
	if got := r.count(in("hangs", key)); got > 0 {
		t.Errorf("controllers after the hanging one received a request of the remote")
	}
	last := l.expect(t, "hangs", 1)
	testkit.Must(t, h.remotes.Stop(t.Context(), "hangs"))
	expectEnd(t, last)
	testkit.Equal(t, len(l.of("healthy")), 1, "engagements of the healthy remote")
}

// An Engage that returns late delays the next epoch of its remote, and no other remote: the library would treat the
// late one as the newer one.
func TestProvider_EngagementsDoNotOverlap(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	var late atomic.Bool
	release := make(chan struct{})
	l := lives{do: func(_ context.Context, name multicluster.ClusterName) error {
		if name == "late" && !late.Swap(true) {
			<-release // regardless of its context
		}
		return nil
	}}
	h := newHub(t, multiclusterruntime.Options{}, func(h *hub) error { return h.Add(&l) })
	h.register(t, "late", c.Kubeconfig())
	first := l.expect(t, "late", 1)
	config := configFor(t, c.Kubeconfig())
	config.Namespaces = []string{"default"}
	testkit.Must(t, h.remotes.Ensure("late", config))
	expectEnd(t, first)
	h.register(t, "other", c.Kubeconfig())
	l.expect(t, "other", 1)
	testkit.Equal(t, len(l.of("late")), 1, "overlapping engagements of one remote")
	close(release)
	second := l.expect(t, "late", 2)
	testkit.NoError(t, second.ctx.Err(), "context of the second engagement ended")
}

// A predicate that panics on the objects of one remote affects neither the hub nor the remote's app.
func TestProvider_HandlersPanic(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	var r record
	h := newHub(t, multiclusterruntime.Options{}, func(h *hub) error {
		return newController(h, "test").For(&corev1.ConfigMap{}).WithEventFilter(ofTest(t)).
			WithEventFilter(predicate.NewPredicateFuncs(func(o client.Object) bool {
				if o.GetLabels()["poison"] != "" {
					panic("boom")
				}
				return true
			})).Complete(&r)
	})
	h.register(t, "one", c.Kubeconfig())
	r.expect(t, in("one", create(t, c)), 0)
	before, _ := h.remotes.Status("one")
	poison := newConfigMap()
	poison.Labels, poison.Annotations = map[string]string{"poison": "yes"}, map[string]string{"test": t.Name()}
	testkit.Must(t, fleettest.Client(t, c).Create(t.Context(), poison))
	r.expect(t, in("one", create(t, c)), 0)
	if after, _ := h.remotes.Status("one"); after.State != state.StateReady || after.Epoch != before.Epoch {
		t.Errorf("got remote %s in epoch %d, want Ready in epoch %d", after.State, after.Epoch, before.Epoch)
	}
}

// A reconciler that panics fails one request, which is retried; requests of other remotes are handled.
func TestProvider_ReconcilerPanics(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	r := record{do: func(_ context.Context, request mcreconcile.Request) error {
		if request.ClusterName == "poisoned" {
			panic("boom")
		}
		return nil
	}}
	h := newHub(t, multiclusterruntime.Options{}, watching(t, &r))
	h.register(t, "poisoned", c.Kubeconfig())
	h.register(t, "healthy", c.Kubeconfig())
	key := create(t, c)
	r.expect(t, in("poisoned", key), 2)
	r.expect(t, in("healthy", create(t, c)), 0)
}

// Indexes exist before a reconciler receives the first request of a remote, and remotes that are already engaged also
// receive new indexes.
func TestProvider_IndexField(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	early, late := "early-"+t.Name(), "late-"+t.Name()
	byTest := func(o client.Object) []string { return []string{o.GetAnnotations()["test"]} }
	find := func(ctx context.Context, h *hub, name multicluster.ClusterName, field string) error {
		one, err := h.GetCluster(ctx, name)
		if err != nil {
			return err
		}
		var found corev1.ConfigMapList
		if err := one.GetClient().List(ctx, &found, client.MatchingFields{field: t.Name()}); err != nil {
			return err
		}
		if len(found.Items) == 0 {
			return errors.New("the object is not in the index")
		}
		return nil
	}
	var r record
	h := newHub(t, multiclusterruntime.Options{}, func(h *hub) error {
		r.do = func(ctx context.Context, request mcreconcile.Request) error {
			if err := find(ctx, h, request.ClusterName, early); err != nil && ctx.Err() == nil { // the context ends with the test
				t.Errorf("%s: %v", request, err)
			}
			return nil
		}
		return errors.Join(
			h.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, early, byTest),
			watching(t, &r)(h),
		)
	})
	key := create(t, c)
	for i := range 3 {
		h.register(t, registry.ClusterName(nth(i)), c.Kubeconfig())
		r.expect(t, in(nth(i), key), 0)
	}
	testkit.Must(t, h.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, late, byTest))
	for i := range 3 {
		if err := find(t.Context(), h, nth(i), late); err != nil {
			t.Errorf("%s: %v", nth(i), err)
		}
	}
	h.register(t, "future", c.Kubeconfig())
	r.expect(t, in("future", key), 0)
	testkit.NoError(t, find(t.Context(), h, "future", late), "future remote")
}

// A remote that does not serve a kind is watched for the other kinds, and for this kind, with its indexes, as soon as
// it serves the kind. Other remotes are not affected.
func TestProvider_KindThatComesLater(t *testing.T) {
	t.Parallel()
	has, gets := fleettest.Cluster(t, "one"), fleettest.Cluster(t, "two")
	kind := newKind()
	install(t, fleettest.Client(t, has), kind)
	const field = "test-name"
	var comets, maps record
	h := newHub(t, multiclusterruntime.Options{}, func(h *hub) error {
		comets.do = func(ctx context.Context, request mcreconcile.Request) error {
			one, err := h.GetCluster(ctx, request.ClusterName)
			if err != nil {
				return err
			}
			found := &unstructured.UnstructuredList{}
			found.SetGroupVersionKind(kind)
			err = one.GetCache().List(ctx, found, client.MatchingFields{field: request.Name})
			if err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", request, err)
			}
			return nil
		}
		byName := func(o client.Object) []string { return []string{o.GetName()} }
		return errors.Join(
			h.GetFieldIndexer().IndexField(t.Context(), objectOf(kind), field, byName),
			newController(h, "comets").For(objectOf(kind)).Complete(&comets),
			watching(t, &maps)(h),
		)
	})
	h.register(t, "has", has.Kubeconfig())
	h.register(t, "gets", gets.Kubeconfig())
	comets.expect(t, in("has", launch(t, fleettest.Client(t, has), kind)), 0)
	maps.expect(t, in("gets", create(t, gets)), 0)
	install(t, fleettest.Client(t, gets), kind)
	key := launch(t, fleettest.Client(t, gets), kind)
	began := time.Now()
	comets.expect(t, in("gets", key), 0)
	t.Logf("kind was watched %s after it was installed", time.Since(began))
	comets.expect(t, in("has", launch(t, fleettest.Client(t, has), kind)), 0)
}

// newKind returns a kind that no cluster serves.
func newKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: strings.ToLower(rand.Text()) + ".example.com", Version: "v1", Kind: "Comet"}
}

func objectOf(kind schema.GroupVersionKind) *unstructured.Unstructured {
	one := &unstructured.Unstructured{}
	one.SetGroupVersionKind(kind)
	return one
}

// install makes a cluster serve a kind.
func install(t *testing.T, direct client.Client, kind schema.GroupVersionKind) {
	t.Helper()
	testkit.Must(t, direct.Create(t.Context(), fleettest.CRD(t, kind, "")))
}

func launch(t *testing.T, direct client.Client, kind schema.GroupVersionKind) client.ObjectKey {
	t.Helper()
	one := objectOf(kind)
	one.SetGenerateName("test-")
	one.SetNamespace(metav1.NamespaceDefault)
	eventually(t, func() error {
		if err := direct.Create(t.Context(), one); err != nil {
			return fmt.Errorf("create: %w", err)
		}
		return nil
	})
	return client.ObjectKeyFromObject(one)
}
