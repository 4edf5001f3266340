// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// offline returns an entry whose informer does not run.
func offline(t testing.TB) *entry {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := NewPool(ctx, Options{
		Hub: &rest.Config{Host: "https://192.0.2.1"}, Transport: http.DefaultTransport, Scheme: fleettest.Scheme(t),
		Mapper: meta.MultiRESTMapper{}, Schemas: meter.NewSchemas(fleettest.Scheme(t)), Log: logr.Discard(), Timeout: time.Second,
	})
	e, err := p.newEntry(configMaps("offline"))
	must(t, err)
	t.Cleanup(func() {
		cancel()
		p.Close()
	})
	return e
}

func versioned(name, to string, version int) client.Object {
	obj := configMap("default", name, "offline", to)
	obj.ResourceVersion = strconv.Itoa(version)
	return obj
}

// Changes of one object are one until they are taken, from the state that was taken last.
func TestListener_Coalesces(t *testing.T) {
	t.Parallel()
	e := offline(t)
	e.OnAdd(versioned("x", "a", 1), true)
	e.users++
	s := e.subscribe(wants(byTo, "a", "b"))
	l := s.Listen()
	for i := 2; i < 1000; i++ {
		e.OnUpdate(nil, versioned("x", []string{"a", "b"}[i%2], i))
	}
	got := l.Take()
	if len(got) != 1 || got[0].Before != nil || got[0].After.GetResourceVersion() != "999" {
		t.Fatalf("the changes are %+v, want one from nothing to 999", got)
	}
	e.OnUpdate(nil, versioned("x", "b", 1000))
	e.OnUpdate(nil, versioned("x", "b", 1000)) // a repeated event
	e.OnDelete(versioned("x", "b", 1001))
	e.OnDelete(versioned("x", "b", 1001))
	got = l.Take()
	if len(got) != 1 || got[0].Before.GetResourceVersion() != "999" || got[0].After != nil {
		t.Errorf("the changes are %+v, want one from 999 to nothing", got)
	}
	if len(l.Take()) != 0 {
		t.Error("changes were taken twice")
	}
	e.OnAdd(versioned("y", "a", 7), false)
	l.Take()
	other := versioned("y", "a", 7) // of another hub, whose revisions begin at another number
	other.SetUID("other")
	e.OnUpdate(nil, other)
	if got := l.Take(); len(got) != 1 || got[0].After.GetUID() != "other" {
		t.Errorf("the changes are %+v, want the other object", got)
	}
	l.Close()
	e.OnAdd(versioned("x", "a", 1002), false)
	if len(l.Take()) != 0 {
		t.Error("a closed Listener receives changes")
	}
}

// While objects change, each state that is taken as the state before is the one that was taken as the state after.
func TestListener_MissesNoState(t *testing.T) {
	t.Parallel()
	e := offline(t)
	e.users++
	l := e.subscribe(wants(byTo, "a")).Listen()
	var changing sync.WaitGroup
	done := make(chan struct{})
	changing.Go(func() {
		defer close(done)
		for i := range 100_000 {
			if obj := versioned("x", "a", i+1); i%3 == 2 {
				e.OnDelete(obj)
			} else {
				e.OnAdd(obj, false)
			}
		}
	})
	defer changing.Wait()
	version := func(obj client.Object) string {
		if obj == nil {
			return "none"
		}
		return obj.GetResourceVersion()
	}
	known := "none"
	for ended := false; !ended; {
		ended = isClosed(done) // before the take, which then has the last change
		for _, c := range l.Take() {
			if got := version(c.Before); got != known {
				t.Fatalf("the state before is %s, want %s", got, known)
			}
			known = version(c.After)
		}
	}
	if known != "100000" {
		t.Errorf("the last state is %s", known)
	}
}

// With the route All each object belongs to every Subscription, whatever its labels are, and a Subscription that comes later
// has it, too. All of them share one tombstone, which of a Secret has no data.
func TestSubscription_All(t *testing.T) {
	t.Parallel()
	e := offline(t)
	e.users = 3
	e.of.Kind.Kind, e.of.Object = "Secret", &corev1.Secret{}
	close(e.synced)
	secret := func(version int, to string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: versioned("x", to, version).(*corev1.ConfigMap).ObjectMeta, Data: map[string][]byte{"key": []byte("private")},
		}
	}
	key := client.ObjectKeyFromObject(secret(1, ""))
	a, b, other := e.subscribe(wants(Route{By: All})), e.subscribe(wants(Route{By: All}, "ignored")), e.subscribe(wants(byTo, "a"))
	atA, atB, atOther := a.Listen(), b.Listen(), other.Listen()
	take := func(l *Listener, want int) Change {
		t.Helper()
		got := l.Take()
		if len(got) != want || want > 0 && got[0].Key != key {
			t.Fatalf("the changes are %+v, want %d", got, want)
		}
		return append(got, Change{})[0]
	}
	e.OnAdd(secret(1, ""), true)
	for _, l := range []*Listener{atA, atB} {
		if got := take(l, 1); got.Before != nil || got.After.GetResourceVersion() != "1" {
			t.Errorf("the new object is %+v", got)
		}
	}
	take(atOther, 0)
	later := e.subscribe(wants(Route{By: All})).Listen()
	take(later, 1)
	e.OnUpdate(nil, secret(2, "a"))
	for _, l := range []*Listener{atA, atB, later} {
		if got := take(l, 1); got.Before.GetResourceVersion() != "1" || got.After.GetResourceVersion() != "2" {
			t.Errorf("the change is %+v", got)
		}
	}
	if _, ok := a.Deleted(key); ok {
		t.Error("an object that has got another label has a tombstone")
	}
	e.OnDelete(secret(3, "a"))
	atB.Close()
	if got := take(atA, 1); got.Before.GetResourceVersion() != "2" || got.After != nil {
		t.Errorf("the delete is %+v", got)
	}
	first, ok := a.Deleted(key)
	second, also := b.Deleted(key)
	if !ok || !also || first.Object != second.Object || !first.Seen || strings.Contains(fmt.Sprint(first.Object), "private") {
		t.Errorf("the tombstones are %+v and %+v", first, second)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Tombstones are limited by number and by age. The age of an object's tombstone is that of its last deletion.
func TestGraves(t *testing.T) {
	t.Parallel()
	var g graves
	now := time.Now()
	key := func(i int) client.ObjectKey { return client.ObjectKey{Name: strconv.Itoa(i)} }
	for i := range maxGraves + 10 {
		g.bury(key(i), Tombstone{Seen: true}, now)
	}
	if _, ok := g.find(key(9), now); ok || len(g.all) != maxGraves || len(g.order) != maxGraves {
		t.Errorf("%d tombstones in %d burials", len(g.all), len(g.order))
	}
	if one, ok := g.find(key(10), now); !ok || !one.Seen {
		t.Error("a tombstone within the limit is lost")
	}
	if _, ok := g.find(key(10), now.Add(gravesFor+time.Second)); ok {
		t.Error("an old tombstone is found")
	}
	if len(g.all) != 0 || len(g.order) != 0 {
		t.Errorf("%d old tombstones are kept after a search", len(g.all))
	}
	g.bury(key(10), Tombstone{}, now.Add(time.Second))
	g.open(key(10))
	g.bury(key(10), Tombstone{}, now.Add(time.Minute)) // again
	g.bury(key(0), Tombstone{}, now.Add(gravesFor+time.Second))
	if _, ok := g.find(key(10), now.Add(gravesFor+2*time.Second)); !ok || len(g.all) != 2 || len(g.order) != 2 {
		t.Errorf("%d tombstones are left, want the two younger ones", len(g.all))
	}
}

// Equal selections have one name, and others have another.
func TestSelection_Name(t *testing.T) {
	t.Parallel()
	one, same := configMaps("x"), configMaps("x")
	one.Namespaces, same.Namespaces = []string{"a", "b"}, []string{"b", "a", "b"}
	if one.Name() != same.Name() {
		t.Errorf("%q and %q", one.Name(), same.Name())
	}
	metadata, all := configMaps("x"), configMaps("x")
	metadata.Object, all.Labels = &metav1.PartialObjectMetadata{}, nil
	names := map[string]bool{one.Name(): true}
	for _, other := range []Selection{configMaps("x"), configMaps("y"), metadata, all} {
		if names[other.Name()] {
			t.Errorf("%q is the name of another selection", other.Name())
		}
		names[other.Name()] = true
	}
}

// A closed Subscription has no objects; that is the error of its end, and not the absence of the object. A read that waits for
// the initial objects ends with it, and at the timeout.
func TestSubscription_Ended(t *testing.T) {
	t.Parallel()
	e := offline(t)
	e.users = 2
	key := client.ObjectKey{Namespace: "default", Name: "x"}
	waiting := e.subscribe(wants(byTo, "a"))
	testkit.ErrorIs(t, waiting.Get(t.Context(), key, &corev1.ConfigMap{}), context.DeadlineExceeded, "before the initial objects")
	e.pool.options.Timeout = time.Hour
	reads := make(chan error, 1)
	go func() { reads <- waiting.List(t.Context(), &corev1.ConfigMapList{}) }()
	waiting.Close()
	testkit.ErrorIs(t, <-reads, ErrEnded, "a list that waits for a closed Subscription")
	e.OnAdd(versioned("x", "a", 1), true)
	close(e.synced)
	s := e.subscribe(wants(byTo, "a"))
	l := s.Listen()
	must(t, s.Get(t.Context(), key, &corev1.ConfigMap{}))
	s.Close()
	testkit.ErrorIs(t, s.Get(t.Context(), key, &corev1.ConfigMap{}), ErrEnded, "get")
	testkit.ErrorIs(t, s.List(t.Context(), &corev1.ConfigMapList{}), ErrEnded, "list")
	if got := l.Take(); len(got) != 0 {
		t.Errorf("the changes are %+v", got)
	}
}

// reading is a selector of a module that reads the objects itself.
type reading struct {
	labels.Selector
	read func()
}

func (r reading) Matches(labels.Labels) bool {
	r.read()
	return true
}

func (r reading) DeepCopySelector() labels.Selector { return r }

// The selector of a reader is called without the lock that all apps share.
func TestSubscription_ListCallsSelectorWithoutLock(t *testing.T) {
	t.Parallel()
	e := offline(t)
	e.users++
	e.OnAdd(versioned("x", "a", 1), true)
	close(e.synced)
	s := e.subscribe(wants(byTo, "a"))
	calls := 0
	selector := reading{labels.Everything(), func() {
		calls++
		if !e.mu.TryLock() {
			t.Error("the lock is held")
			return
		}
		e.mu.Unlock()
	}}
	var all corev1.ConfigMapList
	if err := s.List(t.Context(), &all, client.MatchingLabelsSelector{Selector: selector}); err != nil || len(all.Items) != 1 || calls != 1 {
		t.Errorf("%d objects, %d calls, %v", len(all.Items), calls, err)
	}
}

// Two selections of one kind are blocked on their own.
func TestSubscription_BlocksOfTwoSelections(t *testing.T) {
	t.Parallel()
	blocks := map[string]cache.Block{}
	want := wants(byTo, "a")
	want.Blocked = func(what string, why cache.Block) { blocks[what] = why }
	one, other := offline(t), offline(t)
	other.of.Namespaces = []string{"default"}
	one.subscribe(want)
	s := other.subscribe(want)
	one.blocked("*v1.ConfigMap", cache.Block{Cause: cache.Denied})
	other.blocked("*v1.ConfigMap", cache.Block{Cause: cache.Missing})
	other.blocked("*v1.ConfigMap", cache.Block{})
	if len(blocks) != 2 || blocks[s.Type()] != (cache.Block{}) {
		t.Errorf("the blocks are %+v", blocks)
	}
}

// The tombstone of a Secret has no data, in no form.
func TestSubscription_TombstoneOfSecret(t *testing.T) {
	t.Parallel()
	e := offline(t)
	e.users++
	e.of.Kind.Kind, e.of.Object = "Secret", &corev1.Secret{}
	s := e.subscribe(wants(byTo, "a"))
	secret := &corev1.Secret{
		ObjectMeta: versioned("x", "a", 1).(*corev1.ConfigMap).ObjectMeta, Data: map[string][]byte{"key": []byte("private")},
	}
	secret.UID, secret.Annotations = "1", map[string]string{corev1.LastAppliedConfigAnnotation: "private"}
	e.OnAdd(secret, false)
	e.OnDelete(secret)
	got, ok := s.Deleted(client.ObjectKeyFromObject(secret))
	if !ok || !got.Seen || got.Object.GetUID() != "1" || got.Object.GetLabels()["to"] != "a" || strings.Contains(fmt.Sprint(got.Object), "private") {
		t.Errorf("the tombstone is %+v, %t", got, ok)
	}
	e.purge(t.Context())
	if _, ok := s.Deleted(client.ObjectKeyFromObject(secret)); !ok {
		t.Error("a new tombstone was purged")
	}
	s.mu.Lock()
	s.graves.order[0].at = time.Now().Add(-2 * gravesFor)
	s.graves.all[client.ObjectKeyFromObject(secret)] = grave{got, s.graves.order[0].at}
	s.mu.Unlock()
	e.purge(t.Context())
	if len(s.graves.all) != 0 {
		t.Error("an old tombstone is kept")
	}
}

// The empty namespace says all namespaces, which leave out the hidden one.
func TestEntry_EmptyNamespace(t *testing.T) {
	t.Parallel()
	e := offline(t)
	e.pool.options.Hidden, e.of.Namespaces = "hidden", []string{""}
	if got := e.fields(); got == nil || got.String() != "metadata.namespace!=hidden" {
		t.Errorf("the fields are %v", got)
	}
	if got := e.namespaces(); got != nil {
		t.Errorf("the namespaces are %v", got)
	}
}

// BenchmarkDispatch is the initial list of 10 000 objects for 500 subscriptions, and one event each.
func BenchmarkDispatch(b *testing.B) {
	const apps, objects = 500, 10_000
	first, second := make([]client.Object, objects), make([]client.Object, objects)
	for i := range objects {
		name, to := fmt.Sprintf("o-%05d", i), fmt.Sprintf("app-%d", i%apps)
		first[i], second[i] = versioned(name, to, 1), versioned(name, to, 2)
	}
	b.ReportAllocs()
	for b.Loop() {
		e := offline(b)
		listeners := make([]*Listener, apps)
		for i := range apps {
			e.users++
			listeners[i] = e.subscribe(wants(byTo, fmt.Sprintf("app-%d", i))).Listen()
		}
		taken := 0
		for _, events := range [][]client.Object{first, second} {
			for _, obj := range events {
				e.OnAdd(obj, false)
			}
			for _, l := range listeners {
				taken += len(l.Take())
			}
		}
		if taken != 2*objects {
			b.Fatalf("%d changes, want %d", taken, 2*objects)
		}
		e.cancel()
	}
}
