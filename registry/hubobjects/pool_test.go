// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
)

// Apps of all routes get the objects of their keys, from one informer; metadata have one of their own, which keeps no data.
// Promise: one Secret for many remotes: one informer in the hub, and no write to the Secret.
func TestPool_Routes(t *testing.T) {
	t.Parallel()
	p, l, c := newPool(t)
	create(t, c, configMap("default", "r-1", "routes", "a"), configMap("default", "r-2", "routes", "b"),
		configMap("kube-system", "r-1", "routes", "b"), configMap("kube-system", "r-3", "routes", ""))
	first := watch(t, p, configMaps("routes", byTo), "a")
	expectNames(t, first, "r-1")
	for what, tc := range map[string]struct {
		route       Route
		keys, names []string
	}{
		"namespace":  {ByNamespace(), []string{"kube-system"}, []string{"r-1", "r-3"}},
		"label":      {byTo, []string{"b"}, []string{"r-1", "r-2"}},
		"two labels": {byTo, []string{"a", "b"}, []string{"r-1", "r-1", "r-2"}},
		"name":       {ByName(), []string{"r-1"}, []string{"r-1", "r-1"}},
		"all":        {All(), nil, []string{"r-1", "r-1", "r-2", "r-3"}},
		"no objects": {byTo, []string{"c"}, nil},
	} {
		o := watch(t, p, configMaps("routes", tc.route), tc.keys...)
		expectNames(t, o, tc.names...)
		if got := len(o.listen().take()); got != len(tc.names) { // from the index, in the order of no event
			t.Errorf("%s: %d changes to take, want %d", what, got, len(tc.names))
		}
	}
	var one corev1.ConfigMap
	if err := first.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "r-2"}, &one); !apierrors.IsNotFound(err) {
		t.Errorf("get an object of another key: %v, want NotFound", err)
	}
	key := client.ObjectKey{Namespace: "default", Name: "r-1"}
	if err := first.Get(t.Context(), key, &one); err != nil || one.Kind != "ConfigMap" || one.ManagedFields != nil {
		t.Errorf("get: %v, %+v", err, one)
	}
	if err := first.Get(t.Context(), key, &corev1.Secret{}); err == nil {
		t.Error("a ConfigMap was read into a Secret")
	}
	testkit.ErrorIs(t, first.List(t.Context(), &corev1.ConfigMapList{}, client.MatchingFields{"metadata.name": "x"}), errWhole, "list with a field selector")
	var some corev1.ConfigMapList
	both := watch(t, p, configMaps("routes", byTo), "a", "b")
	if err := both.List(t.Context(), &some, client.InNamespace("default"), client.MatchingLabels{"to": "b"}); err != nil || len(some.Items) != 1 {
		t.Errorf("list some: %v, %v", err, namesOf(some.Items))
	}
	if lists, watches := l.count("list configmaps"), l.count("watch configmaps"); len(p.informers) != 1 || lists+watches > 2 {
		t.Errorf("%d informers, %d lists and %d watches, want one informer", len(p.informers), lists, watches)
	}
	metadata := configMaps("routes", byTo)
	metadata.Object = &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	o := watch(t, p, metadata, "a")
	var alone metav1.PartialObjectMetadata
	var all metav1.PartialObjectMetadataList
	must(t, errors.Join(o.Get(t.Context(), key, &alone), o.List(t.Context(), &all)))
	if alone.Labels["to"] != "a" || len(all.Items) != 1 || len(p.informers) != 2 {
		t.Errorf("%d informers; the metadata are %+v, %+v", len(p.informers), alone, all)
	}
}

// An object whose key changes leaves one app and enters the other. What has left has a tombstone, and the tombstone says whether a
// delete was seen.
func TestPool_RouteChangeAndTombstones(t *testing.T) {
	t.Parallel()
	p, _, c := newPool(t)
	obj := configMap("default", "moves", "change", "a")
	key := client.ObjectKeyFromObject(obj)
	create(t, c, obj)
	a, b := watch(t, p, configMaps("change", byTo), "a"), watch(t, p, configMaps("change", byTo), "b")
	atA, atB := a.listen(), b.listen()
	expectNames(t, a, "moves")
	take := func(l *listener) change {
		t.Helper()
		<-l.changed
		got := l.take()
		if len(got) != 1 || got[0].key != key {
			t.Fatalf("the changes are %+v, want one", got)
		}
		return got[0]
	}
	take(atA)
	obj.Labels["to"] = "b"
	must(t, c.Update(t.Context(), obj))
	if got := take(atB); got.before != nil || got.after == nil {
		t.Errorf("in the new app the change is %+v", got)
	}
	if got := take(atA); got.before == nil || got.after != nil {
		t.Errorf("in the old app the change is %+v", got)
	}
	if grave, ok := a.Deleted(key); !ok || grave.Seen || grave.Object.GetLabels()["to"] != "a" {
		t.Errorf("the tombstone of the move is %+v, %t; a move is no delete", grave, ok)
	}
	if _, ok := b.Deleted(key); ok {
		t.Error("an object that exists has a tombstone")
	}
	must(t, c.Delete(t.Context(), obj))
	if got := take(atB); got.before == nil || got.after != nil {
		t.Errorf("the delete is %+v", got)
	}
	grave, ok := b.Deleted(key)
	if !ok || !grave.Seen || grave.Object.GetResourceVersion() == obj.ResourceVersion {
		t.Errorf("the tombstone of the delete is %+v, %t; want it seen, with the revision of the delete", grave, ok)
	}
	create(t, c, configMap("default", "moves", "change", "b"))
	expectNames(t, b, "moves")
	if _, ok := b.Deleted(key); ok {
		t.Error("an object that exists again has a tombstone")
	}
}

// A selection of some namespaces sends requests to these alone, and ends also before it has synced.
func TestPool_Namespaces(t *testing.T) {
	t.Parallel()
	p, l, c := newPool(t)
	create(t, c, configMap("default", "n-1", "namespaces", "a"), configMap("kube-system", "n-2", "namespaces", "a"),
		configMap("kube-node-lease", "n-3", "namespaces", "a"))
	selected := configMaps("namespaces", byTo)
	selected.Namespaces = []string{"default", "kube-system"}
	l.cut(true)
	early := newApp(t, p)
	early.watch(t, selected, "a")
	early.end(nil)
	l.cut(false)
	o := watch(t, p, selected, "a")
	expectNames(t, o, "n-1", "n-2")
	eventually(t, func() error { // The watches begin after the lists.
		if got := o.blind(time.Now()); got != "" {
			return fmt.Errorf("blind for %s", got)
		}
		return nil
	})
}

// The API server is not asked for objects of the hidden namespace, and one that sends them makes no difference.
func TestPool_Hidden(t *testing.T) {
	t.Parallel()
	p, _, c := newPool(t)
	secret := configMap(hidden, "secret", "hidden", "a")
	create(t, c, secret, configMap("default", "public", "hidden", "a"))
	byLabel, byNamespace := watch(t, p, configMaps("hidden", byTo), "a"), watch(t, p, configMaps("hidden", ByNamespace()), hidden)
	expectNames(t, byLabel, "public")
	var stored corev1.ConfigMapList
	if err := byLabel.informer.cache.List(t.Context(), &stored); err != nil || len(stored.Items) != 1 {
		t.Errorf("the informer has %v, %v", namesOf(stored.Items), err)
	}
	byLabel.informer.OnAdd(secret, false)
	byLabel.informer.OnUpdate(secret, secret)
	byLabel.informer.OnDelete(secret)
	expectNames(t, byLabel, "public")
	expectNames(t, byNamespace)
	if _, ok := byLabel.Deleted(client.ObjectKeyFromObject(secret)); ok {
		t.Error("a hidden object has a tombstone")
	}
}

// The informer ends with the last app, and the next one starts another.
func TestPool_EndsWithTheLastApp(t *testing.T) {
	t.Parallel()
	p, l, c := newPool(t)
	create(t, c, configMap("default", "ends", "ends", "a"))
	a, b := newApp(t, p), newApp(t, p)
	first, last := a.watch(t, configMaps("ends", byTo), "a"), b.watch(t, configMaps("ends", byTo), "b")
	expectNames(t, first, "ends")
	users := func(want int) {
		t.Helper()
		eventually(t, func() error {
			last.informer.mu.Lock()
			defer last.informer.mu.Unlock()
			if got := len(last.informer.users); got != want {
				return fmt.Errorf("%d apps, want %d", got, want)
			}
			return nil
		})
	}
	a.end(nil)
	users(1)
	if last.informer.ctx.Err() != nil || len(first.listen().take()) != 0 {
		t.Error("the informer ended with the first app, or the ended one has objects")
	}
	before := l.count("watch configmaps")
	b.end(nil)
	users(0)
	if last.informer.ctx.Err() == nil || last.informer.objects != nil {
		t.Fatalf("%d objects after the last app", len(last.informer.objects))
	}
	eventually(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.open) > 0 {
			return fmt.Errorf("%d requests are open", len(l.open))
		}
		return nil
	})
	expectNames(t, watch(t, p, configMaps("ends", byTo), "a"), "ends")
	if after := l.count("watch configmaps"); after == before {
		t.Error("no new informer has started")
	}
}

// An app has no current objects before the informer has synced, and while the hub does not respond.
func TestPool_Blind(t *testing.T) {
	t.Parallel()
	p, l, _ := newPool(t)
	l.cut(true)
	a := newApp(t, p)
	o := a.watch(t, configMaps("blind", byTo), "a")
	if got := o.blind(time.Now()); got == "" {
		t.Error("an informer that has not synced is current")
	}
	if why := <-a.blocks; why.Cause != cache.Failing {
		t.Errorf("blocked by %+v", why)
	}
	late := newApp(t, p)
	late.watch(t, configMaps("blind", byTo), "b")
	if why := <-late.blocks; why.Cause != cache.Failing {
		t.Errorf("a later app is blocked by %+v", why)
	}
	l.cut(false)
	expectSight := func(want string) {
		t.Helper()
		eventually(t, func() error {
			if got := o.blind(time.Now()); got != want {
				return fmt.Errorf("blind for %q, want %q", got, want)
			}
			return nil
		})
	}
	expectSight("")
	if why := <-a.blocks; why != (cache.Block{}) {
		t.Errorf("blocked by %+v after the cut", why)
	}
	l.cut(true)
	expectSight("ConfigMap in the hub")
	l.cut(false)
	expectSight("")
}
