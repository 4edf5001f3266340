// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
)

func versioned(name, to string, version int) *corev1.ConfigMap {
	obj := configMap("default", name, "offline", to)
	obj.ResourceVersion = strconv.Itoa(version)
	return obj
}

// Changes of one object are one until they are taken, from the state that was taken last.
func TestListener_Coalesces(t *testing.T) {
	t.Parallel()
	o := watch(t, offline(t), configMaps("offline", byTo), "a", "b")
	i := o.informer
	i.OnAdd(versioned("x", "a", 1), true)
	l := o.listen()
	for n := 2; n < 1000; n++ {
		i.OnUpdate(nil, versioned("x", []string{"a", "b"}[n%2], n))
	}
	got := l.take()
	if len(got) != 1 || got[0].before != nil || got[0].after.GetResourceVersion() != "999" {
		t.Fatalf("the changes are %+v, want one from nothing to 999", got)
	}
	i.OnUpdate(nil, versioned("x", "b", 1000))
	i.OnUpdate(nil, versioned("x", "b", 1000)) // a repeated event
	i.OnDelete(versioned("x", "b", 1001))
	i.OnDelete(versioned("x", "b", 1001))
	got = l.take()
	if len(got) != 1 || got[0].before.GetResourceVersion() != "999" || got[0].after != nil {
		t.Errorf("the changes are %+v, want one from 999 to nothing", got)
	}
	if len(l.take()) != 0 {
		t.Error("changes were taken twice")
	}
	i.OnAdd(versioned("y", "a", 7), false)
	l.take()
	other := versioned("y", "a", 7) // of another hub, whose revisions begin at another number
	other.SetUID("other")
	i.OnUpdate(nil, other)
	if got := l.take(); len(got) != 1 || got[0].after.GetUID() != "other" {
		t.Errorf("the changes are %+v, want the other object", got)
	}
	l.close()
	i.OnAdd(versioned("x", "a", 1002), false)
	if len(l.take()) != 0 {
		t.Error("a closed listener receives changes")
	}
}

// While objects change, each state that is taken as the state before is the one that was taken as the state after.
func TestListener_MissesNoState(t *testing.T) {
	t.Parallel()
	o := watch(t, offline(t), configMaps("offline", byTo), "a")
	l := o.listen()
	var changing sync.WaitGroup
	done := make(chan struct{})
	changing.Go(func() {
		defer close(done)
		for n := range 100_000 {
			if obj := versioned("x", "a", n+1); n%3 == 2 {
				o.informer.OnDelete(obj)
			} else {
				o.informer.OnAdd(obj, false)
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
		for _, c := range l.take() {
			if got := version(c.before); got != known {
				t.Fatalf("the state before is %s, want %s", got, known)
			}
			known = version(c.after)
		}
	}
	if known != "100000" {
		t.Errorf("the last state is %s", known)
	}
}

// With the route All each object belongs to every app, whatever its labels are, and an app that comes later has it, too. All of them
// share one tombstone, which of a Secret has no data, in no form.
func TestObjects_All(t *testing.T) {
	t.Parallel()
	p := offline(t)
	secrets := configMaps("offline", All())
	secrets.Object = &corev1.Secret{}
	secret := func(version int, to string) *corev1.Secret {
		one := &corev1.Secret{ObjectMeta: versioned("x", to, version).ObjectMeta, Data: map[string][]byte{"key": []byte("private")}}
		one.UID, one.Annotations = "1", map[string]string{corev1.LastAppliedConfigAnnotation: "private"}
		return one
	}
	key := client.ObjectKeyFromObject(secret(1, ""))
	a, b := watch(t, p, secrets), watch(t, p, secrets)
	atA, atB := a.listen(), b.listen()
	byLabel := secrets
	byLabel.Route = byTo
	atOther := watch(t, p, byLabel, "a").listen()
	take := func(l *listener, want int) change {
		t.Helper()
		got := l.take()
		if len(got) != want || want > 0 && got[0].key != key {
			t.Fatalf("the changes are %+v, want %d", got, want)
		}
		return append(got, change{})[0]
	}
	a.informer.OnAdd(secret(1, ""), true)
	for _, l := range []*listener{atA, atB} {
		if got := take(l, 1); got.before != nil || got.after.GetResourceVersion() != "1" {
			t.Errorf("the new object is %+v", got)
		}
	}
	take(atOther, 0)
	later := watch(t, p, secrets).listen()
	take(later, 1)
	a.informer.OnUpdate(nil, secret(2, "a"))
	for _, l := range []*listener{atA, atB, later} {
		if got := take(l, 1); got.before.GetResourceVersion() != "1" || got.after.GetResourceVersion() != "2" {
			t.Errorf("the change is %+v", got)
		}
	}
	if _, ok := a.Deleted(key); ok {
		t.Error("an object that has got another label has a tombstone")
	}
	a.informer.OnDelete(secret(3, "a"))
	if got := take(atA, 1); got.before.GetResourceVersion() != "2" || got.after != nil {
		t.Errorf("the delete is %+v", got)
	}
	got, ok := a.Deleted(key)
	if !ok || !got.Seen || got.Object.GetUID() != "1" || got.Object.GetLabels()["to"] != "a" || strings.Contains(fmt.Sprint(got.Object), "private") {
		t.Errorf("the tombstone is %+v", got)
	}
	graveA, _ := a.graves.Get(key)
	if graveB, _ := b.graves.Get(key); graveA.(Tombstone).Object != graveB.(Tombstone).Object {
		t.Error("two apps have two tombstones")
	}
	a.informer.OnAdd(secret(4, ""), false)
	a.informer.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: secret(4, "")})
	if got, ok := a.Deleted(key); !ok || got.Seen {
		t.Errorf("the tombstone of what a list lacks is %+v, %t", got, ok)
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
func TestObjects_ListCallsSelectorWithoutLock(t *testing.T) {
	t.Parallel()
	o := watch(t, offline(t), configMaps("offline", byTo), "a")
	o.informer.OnAdd(versioned("x", "a", 1), true)
	close(o.informer.synced)
	calls := 0
	selector := reading{labels.Everything(), func() {
		calls++
		if !o.informer.mu.TryLock() {
			t.Error("the lock is held")
			return
		}
		o.informer.mu.Unlock()
	}}
	var all corev1.ConfigMapList
	if err := o.List(t.Context(), &all, client.MatchingLabelsSelector{Selector: selector}); err != nil || len(all.Items) != 1 || calls != 1 {
		t.Errorf("%d objects, %d calls, %v", len(all.Items), calls, err)
	}
}

// Two selections of one kind are blocked on their own.
func TestObjects_BlocksOfTwoSelections(t *testing.T) {
	t.Parallel()
	a, blocks := newApp(t, offline(t)), map[string]cache.Block{}
	var mu sync.Mutex
	a.binding.Blocked = func(what string, why cache.Block) {
		mu.Lock()
		defer mu.Unlock()
		blocks[what] = why
	}
	one, other := a.watch(t, configMaps("one", All())), a.watch(t, configMaps("other", All()))
	one.informer.blocked("", cache.Block{Cause: cache.Denied})
	other.informer.blocked("", cache.Block{Cause: cache.Missing})
	other.informer.blocked("", cache.Block{})
	mu.Lock()
	defer mu.Unlock()
	if len(blocks) != 2 || blocks[other.what()] != (cache.Block{}) {
		t.Errorf("the blocks are %+v", blocks)
	}
}

// BenchmarkDispatch is the initial list of 10 000 objects for 500 apps, and one event each.
func BenchmarkDispatch(b *testing.B) {
	const apps, objects = 500, 10_000
	first, second := make([]client.Object, objects), make([]client.Object, objects)
	for i := range objects {
		name, to := fmt.Sprintf("o-%05d", i), fmt.Sprintf("app-%d", i%apps)
		first[i], second[i] = versioned(name, to, 1), versioned(name, to, 2)
	}
	b.ReportAllocs()
	for b.Loop() {
		p := offline(b)
		listeners := make([]*listener, apps)
		for i := range apps {
			listeners[i] = watch(b, p, configMaps("offline", byTo), fmt.Sprintf("app-%d", i)).listen()
		}
		taken := 0
		for _, events := range [][]client.Object{first, second} {
			for _, obj := range events {
				listeners[0].of.informer.OnAdd(obj, false)
			}
			for _, l := range listeners {
				taken += len(l.take())
			}
		}
		if taken != 2*objects {
			b.Fatalf("%d changes, want %d", taken, 2*objects)
		}
		p.Close()
	}
}
