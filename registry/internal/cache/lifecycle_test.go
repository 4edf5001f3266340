// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

func TestInformer_Stop(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.put("a")
	s.put("b")
	i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
	called, release := make(chan struct{}, 1), make(chan struct{})
	var calls atomic.Int64
	handle := add(t, i, toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		calls.Add(1)
		called <- struct{}{}
		<-release
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.RunWithContext(ctx)
	}()
	<-called
	cancel()
	<-handle.HasSyncedChecker().Done()
	if handle.HasSynced() {
		t.Error("the handler has synced, although it has not received all objects")
	}
	select {
	case <-ended:
		t.Error("Run has returned during a call of a handler")
	default:
	}
	close(release)
	<-ended
	if got := calls.Load(); got != 1 {
		t.Errorf("the handler was called %d times, want 1: what waits is dropped at the end", got)
	}
	if !i.IsStopped() {
		t.Error("the informer is not stopped")
	}
	if _, err := i.AddEventHandler(&record{}); err == nil {
		t.Error("a stopped informer accepts a handler")
	}
	if err := i.AddIndexers(toolscache.Indexers{}); err == nil {
		t.Error("a stopped informer accepts an index")
	}
	i.RunWithContext(t.Context()) // It returns at once.
}

func TestInformer_StopWithoutRun(t *testing.T) {
	t.Parallel()
	i := informerOf(t, newServer().listerWatcher(), 0, toolscache.Indexers{})
	handle := add(t, i, &record{})
	i.Stop()
	<-handle.HasSyncedChecker().Done()
	<-i.HasSyncedChecker().Done()
	if i.HasSynced() || handle.HasSynced() {
		t.Error("an informer that never ran has synced")
	}
	i.RunWithContext(t.Context()) // It returns at once.
}

func TestInformer_RemovedHandlerHearsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
		r := record{}
		handle := add(t, i, &r)
		run(t, i)
		synctest.Wait()
		for range 2 { // It may be removed twice.
			must(t, i.RemoveEventHandler(handle))
		}
		s.put("a")
		synctest.Wait()
		if got := r.all(); len(got) > 0 {
			t.Errorf("a removed handler hears %v", got)
		}
		if err := i.RemoveEventHandler(nil); err == nil {
			t.Error("RemoveEventHandler accepts what is no registration")
		}
	})
}

//nolint:paralleltest // It looks at all goroutines of the process.
func TestInformer_HandlersHaveNoGoroutineAtRest(t *testing.T) {
	s := newServer()
	i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
	const handlers = 20
	var synced []toolscache.DoneChecker
	for range handlers {
		synced = append(synced, add(t, i, &record{}).HasSyncedChecker())
	}
	run(t, i)
	s.put("a")
	if !toolscache.WaitFor(t.Context(), "", synced...) {
		t.Fatal("the handlers have not synced")
	}
	for {
		var stacks strings.Builder
		must(t, pprof.Lookup("goroutine").WriteTo(&stacks, 1))
		if !strings.Contains(stacks.String(), "cache.(*handler)") {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the handlers have goroutines at rest")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestInformer_Races has handlers that come and go, indexes and reads while objects change.
func TestInformer_Races(t *testing.T) {
	t.Parallel()
	s := newServer()
	i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
	stop := run(t, i)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for k := range 200 {
				s.put(strconv.Itoa((k + n) % 7))
				s.remove(strconv.Itoa(k % 5))
				if k%50 == 0 {
					s.cut()
				}
			}
		})
		all.Go(func() {
			for k := range 100 {
				handle, err := i.AddEventHandler(&record{})
				if err != nil {
					return // It has stopped.
				}
				_ = i.AddIndexers(toolscache.Indexers{strconv.Itoa(n) + "/" + strconv.Itoa(k): toolscache.MetaNamespaceIndexFunc})
				_, _, _ = i.GetStore().GetByKey("default/1")
				_, _, _ = handle.HasSynced(), i.HasSynced(), i.LastSyncResourceVersion()
				if k%2 == 0 {
					_ = i.RemoveEventHandler(handle)
				}
			}
		})
	}
	all.Go(func() {
		<-i.HasSyncedChecker().Done()
		stop()
	})
	all.Wait()
}
