// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
)

func labelsOf(test string) labels.Selector { return labels.SelectorFromSet(labels.Set{"test": test}) }

func namesOf(all []corev1.ConfigMap) (names []string) {
	for _, one := range all {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	return names
}

var byTo = Route{By: ByLabel, Label: "to"}

// Subscriptions of all routes get the objects of their keys, from one informer.
// Promise: one Secret for many remotes: one informer in the hub, and no write to the Secret.
func TestPool_Routes(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	l, c := newLine(t, hub), clientOf(t, hub)
	p := newPool(t, l)
	create(t, c, configMap("default", "r-1", "routes", "a"), configMap("default", "r-2", "routes", "b"),
		configMap("kube-system", "r-1", "routes", "b"), configMap("kube-system", "r-3", "routes", ""))
	all := configMaps("routes")
	first := subscribe(t, p, all, wants(byTo, "a"))
	expectNames(t, first, "r-1")
	for what, tc := range map[string]struct {
		want  Want
		names []string
	}{
		"namespace":  {wants(Route{By: ByNamespace}, "kube-system"), []string{"r-1", "r-3"}},
		"label":      {wants(byTo, "b"), []string{"r-1", "r-2"}},
		"two labels": {wants(byTo, "a", "b"), []string{"r-1", "r-1", "r-2"}},
		"name":       {wants(Route{By: ByName}, "r-1"), []string{"r-1", "r-1"}},
		"all":        {wants(Route{By: All}), []string{"r-1", "r-1", "r-2", "r-3"}},
		"no objects": {wants(byTo, "c"), nil},
		"empty key":  {wants(byTo, ""), nil},
	} {
		s := subscribe(t, p, all, tc.want)
		expectNames(t, s, tc.names...)
		if got := len(s.Listen().Take()); got != len(tc.names) { // from the index, in the order of no event
			t.Errorf("%s: %d changes to take, want %d", what, got, len(tc.names))
		}
	}
	var one corev1.ConfigMap
	if err := first.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "r-2"}, &one); !apierrors.IsNotFound(err) {
		t.Errorf("get an object of another key: %v, want NotFound", err)
	}
	if err := first.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "r-1"}, &one); err != nil || one.Kind != "ConfigMap" || one.ManagedFields != nil {
		t.Errorf("get: %v, %+v", err, one)
	}
	if err := first.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "r-1"}, &corev1.Secret{}); err == nil {
		t.Error("a ConfigMap was read into a Secret")
	}
	testkit.ErrorIs(t, first.List(t.Context(), &corev1.ConfigMapList{}, client.MatchingFields{"metadata.name": "x"}), errWhole, "list with a field selector")
	var some corev1.ConfigMapList
	both := subscribe(t, p, all, wants(byTo, "a", "b"))
	if err := both.List(t.Context(), &some, client.InNamespace("default"), client.MatchingLabels{"to": "b"}); err != nil || len(some.Items) != 1 {
		t.Errorf("list some: %v, %v", err, namesOf(some.Items))
	}
	if lists, watches := l.count("list configmaps"), l.count("watch configmaps"); p.Informers() != 1 || lists+watches > 2 {
		t.Errorf("%d informers, %d lists and %d watches, want one informer", p.Informers(), lists, watches)
	}
}

// An object whose key changes leaves one subscription and enters the other. What has left has a tombstone, and the
// tombstone says whether a delete was seen.
func TestPool_RouteChangeAndTombstones(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	p, c := newPool(t, newLine(t, hub)), clientOf(t, hub)
	obj := configMap("default", "moves", "change", "a")
	key := client.ObjectKeyFromObject(obj)
	create(t, c, obj)
	a, b := subscribe(t, p, configMaps("change"), wants(byTo, "a")), subscribe(t, p, configMaps("change"), wants(byTo, "b"))
	atA, atB := a.Listen(), b.Listen()
	expectNames(t, a, "moves")
	take := func(l *Listener) Change {
		t.Helper()
		<-l.Changed()
		got := l.Take()
		if len(got) != 1 || got[0].Key != key {
			t.Fatalf("the changes are %+v, want one", got)
		}
		return got[0]
	}
	take(atA)
	obj.Labels["to"] = "b"
	must(t, c.Update(t.Context(), obj))
	if got := take(atB); got.Before != nil || got.After == nil {
		t.Errorf("in the new app the change is %+v", got)
	}
	if got := take(atA); got.Before == nil || got.After != nil {
		t.Errorf("in the old app the change is %+v", got)
	}
	if grave, ok := a.Deleted(key); !ok || grave.Seen || grave.Object.GetLabels()["to"] != "a" {
		t.Errorf("the tombstone of the move is %+v, %t; a move is no delete", grave, ok)
	}
	if _, ok := b.Deleted(key); ok {
		t.Error("an object that exists has a tombstone")
	}
	must(t, c.Delete(t.Context(), obj))
	if got := take(atB); got.Before == nil || got.After != nil {
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

// Objects as metadata have an informer of their own, which keeps no data.
func TestPool_Metadata(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	p, c := newPool(t, newLine(t, hub)), clientOf(t, hub)
	create(t, c, configMap("default", "meta", "metadata", "a"))
	selected := configMaps("metadata")
	selected.Object = &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	s := subscribe(t, p, selected, wants(byTo, "a"))
	subscribe(t, p, configMaps("metadata"), wants(byTo, "a"))
	var one metav1.PartialObjectMetadata
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "meta"}, &one); err != nil || one.Labels["to"] != "a" {
		t.Errorf("get: %v, %+v", err, one)
	}
	var all metav1.PartialObjectMetadataList
	if err := s.List(t.Context(), &all); err != nil || len(all.Items) != 1 {
		t.Errorf("list: %v, %+v", err, all)
	}
	testkit.Equal(t, p.Informers(), 2, "informers")
}

// A selection of some namespaces sends requests to these alone, and ends also before it has synced.
func TestPool_Namespaces(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	l, c := newLine(t, hub), clientOf(t, hub)
	p := newPool(t, l)
	create(t, c, configMap("default", "n-1", "namespaces", "a"), configMap("kube-system", "n-2", "namespaces", "a"),
		configMap("kube-node-lease", "n-3", "namespaces", "a"))
	selected := configMaps("namespaces")
	selected.Namespaces = []string{"default", "kube-system"}
	l.set(func() { l.cut = true })
	subscribe(t, p, selected, wants(byTo, "a")).Close()
	l.set(func() { l.cut = false })
	s := subscribe(t, p, selected, wants(byTo, "a"))
	expectNames(t, s, "n-1", "n-2")
	if got := s.Blind(time.Now()); got != "" {
		t.Errorf("blind for %s", got)
	}
}

// The API server is not asked for objects of the hidden namespace, and one that sends them makes no difference.
func TestPool_Hidden(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	p, c := newPool(t, newLine(t, hub)), clientOf(t, hub)
	secret := configMap(hidden, "secret", "hidden", "a")
	create(t, c, secret, configMap("default", "public", "hidden", "a"))
	byLabel := subscribe(t, p, configMaps("hidden"), wants(byTo, "a"))
	byNamespace := subscribe(t, p, configMaps("hidden"), wants(Route{By: ByNamespace}, hidden))
	expectNames(t, byLabel, "public")
	var stored corev1.ConfigMapList
	if err := byLabel.entry.cache.List(t.Context(), &stored); err != nil || len(stored.Items) != 1 {
		t.Errorf("the informer has %v, %v", namesOf(stored.Items), err)
	}
	byLabel.entry.OnAdd(secret, false)
	byLabel.entry.OnUpdate(secret, secret)
	byLabel.entry.OnDelete(secret)
	expectNames(t, byLabel, "public")
	expectNames(t, byNamespace)
	if _, ok := byLabel.Deleted(client.ObjectKeyFromObject(secret)); ok {
		t.Error("a hidden object has a tombstone")
	}
}

// The informer ends with the last subscription, and the next one starts another.
func TestPool_EndsWithTheLastSubscription(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	l, c := newLine(t, hub), clientOf(t, hub)
	p := newPool(t, l)
	create(t, c, configMap("default", "ends", "ends", "a"))
	a, b := subscribe(t, p, configMaps("ends"), wants(byTo, "a")), subscribe(t, p, configMaps("ends"), wants(byTo, "b"))
	expectNames(t, a, "ends")
	a.Close()
	a.Close()
	if p.Informers() != 1 || b.entry.ctx.Err() != nil || len(a.Listen().Take()) != 0 {
		t.Errorf("%d informers; the informer ended with the first subscription, or the closed one has objects", p.Informers())
	}
	before := l.count("watch configmaps")
	b.Close()
	if p.Informers() != 0 || b.entry.ctx.Err() == nil || b.entry.objects != nil {
		t.Fatalf("%d informers and %d objects after the last subscription", p.Informers(), len(b.entry.objects))
	}
	eventually(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.open) > 0 {
			return fmt.Errorf("%d requests are open", len(l.open))
		}
		return nil
	})
	expectNames(t, subscribe(t, p, configMaps("ends"), wants(byTo, "a")), "ends")
	if after := l.count("watch configmaps"); after == before {
		t.Error("no new informer has started")
	}
}

// A subscription has no current objects before the informer has synced, and while the hub does not respond.
func TestPool_Blind(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	l := newLine(t, hub)
	p := newPool(t, l)
	l.set(func() { l.cut = true })
	blocks := make(chan cache.Block, 100)
	want := wants(byTo, "a")
	want.Blocked = func(_ string, why cache.Block) { blocks <- why }
	s := subscribe(t, p, configMaps("blind"), want)
	if got := s.Blind(time.Now()); got == "" {
		t.Error("an informer that has not synced is current")
	}
	if why := <-blocks; why.Cause != cache.Failing {
		t.Errorf("blocked by %+v", why)
	}
	l.set(func() { l.cut = false })
	expectSight := func(want string) {
		t.Helper()
		eventually(t, func() error {
			if got := s.Blind(time.Now()); got != want {
				return fmt.Errorf("blind for %q, want %q", got, want)
			}
			return nil
		})
	}
	expectSight("")
	if why := <-blocks; why != (cache.Block{}) {
		t.Errorf("blocked by %+v after the cut", why)
	}
	l.set(func() { l.cut = true })
	expectSight("ConfigMap in the hub")
	l.set(func() { l.cut = false })
	expectSight("")
}

// In place of the hub another one responds, which has no objects: what the list lacks is no seen delete.
func TestPool_Emptied(t *testing.T) {
	t.Parallel()
	hubs := fleettest.Clusters(t, "hub", "empty")
	l, c := newLine(t, hubs[0]), clientOf(t, hubs[0])
	p := newPool(t, l)
	create(t, c, configMap("default", "lost", "emptied", "a"), configMap("default", "gone", "emptied", "a"))
	s := subscribe(t, p, configMaps("emptied"), wants(byTo, "a"))
	expectNames(t, s, "gone", "lost")
	must(t, c.Delete(t.Context(), configMap("default", "gone", "emptied", "a")))
	expectNames(t, s, "lost")
	l.lead(t, hubs[1])
	expectNames(t, s)
	for name, seen := range map[string]bool{"gone": true, "lost": false} {
		grave, ok := s.Deleted(client.ObjectKey{Namespace: "default", Name: name})
		if !ok || grave.Seen != seen || grave.Object.GetName() != name {
			t.Errorf("%s: tombstone %+v, %t", name, grave, ok)
		}
	}
}
