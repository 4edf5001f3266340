// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// server is the storage of an API server, with the watch of one informer. It streams no lists, unless streams is set.
type server struct {
	mu      sync.Mutex
	version int
	objects map[string]*corev1.ConfigMap
	watch   *watch.RaceFreeFakeWatcher
	streams bool
}

func newServer() *server { return &server{objects: map[string]*corev1.ConfigMap{}} }

func (s *server) listerWatcher() toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
			for _, name := range slices.Sorted(maps.Keys(s.objects)) {
				list.Items = append(list.Items, *s.objects[name].DeepCopy())
			}
			return list, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			initial := o.SendInitialEvents != nil && *o.SendInitialEvents
			if initial && !s.streams {
				return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), "", nil)
			}
			s.watch = watch.NewRaceFreeFake()
			if initial {
				s.stream()
			}
			return s.watch, nil
		},
	}
}

// stream sends all objects and the end of the list. The caller holds the lock.
func (s *server) stream() {
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		s.watch.Add(s.objects[name].DeepCopy())
	}
	s.watch.Action(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.Itoa(s.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
}

func (s *server) put(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	_, known := s.objects[name]
	s.objects[name] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, ResourceVersion: strconv.Itoa(s.version),
	}}
	switch {
	case s.watch == nil:
	case known:
		s.watch.Modify(s.objects[name].DeepCopy())
	default:
		s.watch.Add(s.objects[name].DeepCopy())
	}
}

func (s *server) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, known := s.objects[name]
	if !known {
		return
	}
	s.version++
	delete(s.objects, name)
	if s.watch != nil {
		last := one.DeepCopy()
		last.ResourceVersion = strconv.Itoa(s.version)
		s.watch.Delete(last)
	}
}

// cut ends the watch in such a way that the informer lists again.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch != nil {
		gone := apierrors.NewResourceExpired("too old").Status()
		s.watch.Action(watch.Error, &gone)
		s.watch = nil
	}
}

// record is what a handler has heard of each object.
type record struct {
	mu    sync.Mutex
	lines map[string][]string
}

func (r *record) add(obj any, format string, values ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines == nil {
		r.lines = map[string][]string{}
	}
	key, _ := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	r.lines[key] = append(r.lines[key], fmt.Sprintf(format, values...))
}

func (r *record) OnAdd(obj any, initial bool) { r.add(obj, "add %s %t", describe(obj), initial) }

func (r *record) OnUpdate(before, after any) {
	r.add(after, "update %s to %s", describe(before), describe(after))
}

func (r *record) OnDelete(obj any) { r.add(obj, "delete %s", describe(obj)) }

func (r *record) all() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string][]string{}
	for key, lines := range r.lines {
		all[key] = slices.Clone(lines)
	}
	return all
}

func describe(obj any) string {
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		return o.Name + "@" + o.ResourceVersion
	case toolscache.DeletedFinalStateUnknown:
		return "unknown " + o.Key + " " + describe(o.Obj)
	}
	return fmt.Sprintf("%T", obj)
}

// TestInformer_IsClientGos plays random histories to an informer and to client-go's, with handlers that come and go, and compares what the handlers hear and what the stores and an index have.
func TestInformer_IsClientGos(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			theirs, want := playHistory(t, seed, func(lw toolscache.ListerWatcher) toolscache.SharedIndexInformer {
				return toolscache.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, byVersion())
			})
			ours, store := playHistory(t, seed, func(lw toolscache.ListerWatcher) toolscache.SharedIndexInformer {
				return informerOf(t, lw, 0, byVersion())
			})
			testkit.Equal(t, store, want, "seed", seed, "the store differs from that of client-go")
			testkit.Equal(t, ours, theirs, "seed", seed, "a handler hears something else than with client-go")
		})
	}
}

// byVersion is an index whose function knows the Go type of the objects.
func byVersion() toolscache.Indexers {
	return toolscache.Indexers{"version": func(obj any) ([]string, error) { return []string{obj.(*corev1.ConfigMap).ResourceVersion}, nil }}
}

// playHistory plays a history, and returns what each handler has heard and the store.
func playHistory(
	t *testing.T, seed uint64, newInformer func(toolscache.ListerWatcher) toolscache.SharedIndexInformer,
) (heard []map[string][]string, store []string) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	s := newServer()
	s.streams = random.IntN(2) == 0
	for n := range random.IntN(4) {
		s.put(strconv.Itoa(n))
	}
	i := newInformer(s.listerWatcher())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var records []*record
	var handles []toolscache.ResourceEventHandlerRegistration
	add := func() {
		r := &record{}
		h, err := i.AddEventHandler(r)
		must(t, err)
		records, handles = append(records, r), append(handles, h)
	}
	add()
	running.Go(func() { i.RunWithContext(ctx) })
	for range 25 {
		synctest.Wait()
		name := strconv.Itoa(random.IntN(6))
		switch random.IntN(8) {
		case 0:
			add()
		case 1:
			must(t, i.RemoveEventHandler(handles[random.IntN(len(handles))]))
		case 2:
			s.cut()
			if random.IntN(2) == 0 {
				s.remove(name)
			}
			<-time.After(time.Hour) // longer than any backoff
		case 3:
			s.remove(name)
		default:
			s.put(name)
		}
	}
	synctest.Wait()
	for _, r := range records {
		heard = append(heard, r.all())
	}
	for _, version := range i.GetIndexer().ListIndexFuncValues("version") {
		found, err := i.GetIndexer().ByIndex("version", version)
		if err != nil || len(found) != 1 {
			t.Errorf("seed %d: version %s: got %d objects and %v, want one", seed, version, len(found), err)
		}
	}
	for _, obj := range i.GetStore().List() {
		store = append(store, describe(obj.(runtime.Object).DeepCopyObject()))
	}
	slices.Sort(store)
	cancel()
	running.Wait()
	return heard, store
}
