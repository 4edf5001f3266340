// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// run runs an informer of a server until the end of the test, or until stop is called, which waits for its end.
func run(t *testing.T, i *Informer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { i.RunWithContext(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func informerOf(
	t *testing.T, lw toolscache.ListerWatcher, resync time.Duration, indexers toolscache.Indexers,
) *Informer {
	t.Helper()
	s := &selection{budget: newBudget(someOptions(t.Context(), scheme.Scheme, meter.NewLimiter(nil, 1<<20)))}
	return s.newInformer(lw, &corev1.ConfigMap{}, resync, indexers).(*Informer)
}

func add(t *testing.T, i *Informer, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandlerRegistration {
	t.Helper()
	handle, err := i.AddEventHandler(h)
	must(t, err)
	return handle
}

func TestInformer_HandlerHasSyncedAfterTheLastObject(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"before the start": false, "after the list": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.put("a")
				s.put("b")
				i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
				if late {
					run(t, i)
					synctest.Wait()
				}
				next := make(chan struct{})
				handle := add(t, i, toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-next }})
				if !late {
					run(t, i)
				}
				for range 2 {
					synctest.Wait()
					if !i.HasSynced() || handle.HasSynced() || toolscache.IsDone(handle.HasSyncedChecker()) {
						t.Fatalf("the handler has synced before it has received all objects")
					}
					next <- struct{}{}
				}
				<-handle.HasSyncedChecker().Done()
				if !handle.HasSynced() {
					t.Error("the handler has not synced after it has received all objects")
				}
			})
		})
	}
}

func TestInformer_NobodyWaitsForASlowHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
		release := make(chan struct{})
		slow := record{}
		add(t, i, toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { <-release; slow.OnAdd(obj, false) }})
		quick := record{}
		add(t, i, &quick)
		run(t, i)
		synctest.Wait()
		s.put("a")
		synctest.Wait()
		s.put("b")
		synctest.Wait()
		want := map[string][]string{"default/a": {"add a@1 false"}, "default/b": {"add b@2 false"}}
		testkit.Equal(t, quick.all(), want, "the quick handler")
		if got := len(i.GetStore().List()); got != 2 {
			t.Errorf("the store has %d objects, want 2", got)
		}
		close(release)
		synctest.Wait()
		testkit.Equal(t, slow.all(), want, "the slow handler")
	})
}

func TestInformer_StoreHasTheWholeListBeforeAHandlerHearsOfIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for n := range 50 {
			s.put(strconv.Itoa(n))
		}
		i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
		var fewest atomic.Int64
		fewest.Store(1000)
		add(t, i, toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			fewest.Store(min(fewest.Load(), int64(len(i.GetStore().ListKeys()))))
		}})
		run(t, i)
		synctest.Wait()
		if got := fewest.Load(); got != 50 {
			t.Errorf("a handler was called when the store had %d objects, want 50", got)
		}
	})
}

func TestInformer_TransformsOnce(t *testing.T) {
	t.Parallel()
	for name, streams := range map[string]bool{"list": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.streams = streams
				s.put("a")
				i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
				passed := record{}
				must(t, i.SetTransform(func(obj any) (any, error) {
					passed.add(obj, "%s", describe(obj))
					one := obj.(*corev1.ConfigMap).DeepCopy()
					one.Labels = map[string]string{"transformed": "yes"}
					return one, nil
				}))
				run(t, i)
				synctest.Wait()
				s.put("a")
				synctest.Wait()
				s.put("b")
				synctest.Wait()
				for _, obj := range i.GetStore().List() {
					if got := obj.(*corev1.ConfigMap).Labels["transformed"]; got != "yes" {
						t.Errorf("%s is not transformed", describe(obj))
					}
				}
				want := map[string][]string{"default/a": {"a@1", "a@2"}, "default/b": {"b@3"}}
				testkit.Equal(t, passed.all(), want, "the transform was called with")
			})
		})
	}
}

// An object that the transform refuses leaves what is known of it as it is; a list that it refuses is listed again.
func TestInformer_TransformFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
		var refuses atomic.Bool
		refuses.Store(true)
		must(t, i.SetTransform(func(obj any) (any, error) {
			if refuses.Load() {
				return nil, errors.New("refused")
			}
			return obj, nil
		}))
		run(t, i)
		synctest.Wait()
		if i.HasSynced() {
			t.Error("the informer has synced without a list")
		}
		refuses.Store(false)
		<-i.HasSyncedChecker().Done()
		synctest.Wait()
		refuses.Store(true)
		s.put("a")
		s.remove("a")
		synctest.Wait()
		got, _, _ := i.GetStore().GetByKey("default/a")
		if describe(got) != "a@1" {
			t.Errorf("got %s, want a@1, as before the objects that were refused", describe(got))
		}
	})
}

func TestInformer_Resyncs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		i := informerOf(t, s.listerWatcher(), time.Hour, toolscache.Indexers{})
		often, seldom, never := record{}, record{}, record{}
		for r, period := range map[*record]time.Duration{&often: time.Minute, &seldom: 3 * time.Minute, &never: 0} {
			if _, err := i.AddEventHandlerWithResyncPeriod(r, period); err != nil {
				t.Fatalf("AddEventHandlerWithResyncPeriod: %v", err)
			}
		}
		run(t, i)
		<-time.After(3*time.Minute + time.Second)
		synctest.Wait()
		added, again := "add a@1 true", "update a@1 to a@1"
		for r, want := range map[*record][]string{&often: {added, again, again, again}, &seldom: {added, again}, &never: {added}} {
			testkit.Equal(t, r.all()["default/a"], want, "after three minutes")
		}
	})
}

func TestInformer_AddIndexersLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
		run(t, i)
		synctest.Wait()
		byName := func(obj any) ([]string, error) { return []string{obj.(*corev1.ConfigMap).Name}, nil }
		must(t, i.AddIndexers(toolscache.Indexers{"name": byName}))
		s.put("b")
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			if got, err := i.GetIndexer().ByIndex("name", name); err != nil || len(got) != 1 {
				t.Errorf("ByIndex(%q): got %d objects and %v, want one object", name, len(got), err)
			}
		}
	})
}
