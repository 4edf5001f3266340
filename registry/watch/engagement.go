// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// engagement is the watch of a kind in one epoch of one remote.
type engagement[object client.Object] struct {
	source *remotes[object]
	name   state.ClusterName
	epoch  int64
	ctx    context.Context //nolint:containedctx // An engagement is a lifetime.
	cancel context.CancelFunc

	mu        sync.Mutex // protects the fields below
	requests  made       // of the objects that there are
	inherited made       // by the objects of the previous epoch; nil after the comparison
	over      bool
}

type made map[types.NamespacedName][]Request

func newEngagement[object client.Object](ctx context.Context, s *remotes[object], info state.Status) *engagement[object] {
	e := &engagement[object]{source: s, name: info.Name, epoch: info.Epoch, requests: made{}}
	e.ctx, e.cancel = context.WithCancel(ctx)
	return e
}

// handOver ends the engagement and returns the requests of all its objects.
func (e *engagement[object]) handOver() made {
	e.cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	all := maps.Clone(e.requests)
	for key, earlier := range e.inherited { // which were not compared yet
		if !slices.Equal(all[key], earlier) {
			all[key] = slices.Concat(all[key], earlier)
		}
	}
	return all
}

// retries: a remote may not serve a kind yet.
func retries() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
}

func (e *engagement[object]) run() {
	defer e.cancel()
	pause := retries()
	for e.ctx.Err() == nil {
		err := e.source.registry.WithCluster(e.ctx, e.name, e.watch)
		switch {
		case err == nil, e.ctx.Err() != nil,
			errors.Is(err, registry.ErrNotReady), errors.Is(err, registry.ErrNotFound), errors.Is(err, registry.ErrElsewhere):
			return // an event follows when there is work again
		case meta.IsNoMatchError(err):
			e.source.log.V(1).Info("The remote does not serve the kind; the hub retries", "cluster", e.name)
		default:
			e.source.log.Info("Could not watch a remote; it is tried again", "cluster", e.name, "error", err.Error())
		}
		select {
		case <-time.After(pause.Step()):
		case <-e.ctx.Done():
		}
	}
}

// watch returns nil when there is nothing left to watch.
func (e *engagement[object]) watch(ctx context.Context, remote cluster.Cluster) error {
	objects := remote.GetCache()
	for _, index := range e.source.options.Indexes {
		if err := objects.IndexField(ctx, newOf(e.source.kind), index.Field, index.Extract); err != nil {
			return fmt.Errorf("index %s: %w", index.Field, err)
		}
	}
	informer, err := objects.GetInformer(ctx, newOf(e.source.kind), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: e.added, UpdateFunc: e.updated, DeleteFunc: e.deleted,
	})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	select {
	case <-handle.HasSyncedChecker().Done(): // at the end of the app, too
		if handle.HasSynced() {
			e.compare()
		}
	case <-ctx.Done():
	}
	<-ctx.Done()
	_ = informer.RemoveEventHandler(handle) // It fails when the informer has ended, which is as good.
	return nil
}

// compare adds requests of objects that were deleted since the last epoch, or made others: no event reports these.
func (e *engagement[object]) compare() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	for key, requests := range e.inherited {
		if !slices.Equal(e.requests[key], requests) {
			e.add(nil, requests)
		}
	}
	e.inherited = nil
}

func (e *engagement[object]) added(obj any, isInInitialList bool) {
	one, ok := e.take(obj)
	if !ok {
		return
	}
	created := event.TypedCreateEvent[object]{Object: one, IsInInitialList: isInInitialList}
	for _, p := range e.source.options.Predicates {
		if !p.Create(created) {
			return
		}
	}
	e.note(one, isInInitialList)
}

func (e *engagement[object]) updated(before, after any) {
	earlier, ok := e.take(before)
	one, isOne := e.take(after)
	if !ok || !isOne {
		return
	}
	changed := event.TypedUpdateEvent[object]{ObjectOld: earlier, ObjectNew: one}
	for _, p := range e.source.options.Predicates {
		if !p.Update(changed) {
			return
		}
	}
	e.note(one, earlier.GetResourceVersion() == one.GetResourceVersion())
}

func (e *engagement[object]) deleted(obj any) {
	gone, isUnknown := obj.(toolscache.DeletedFinalStateUnknown)
	if isUnknown {
		obj = gone.Obj
	}
	one, ok := e.take(obj)
	if !ok {
		return
	}
	last, ok := e.replace(client.ObjectKeyFromObject(one), nil)
	if !ok {
		return
	}
	for _, p := range e.source.options.Predicates {
		if !p.Delete(event.TypedDeleteEvent[object]{Object: one, DeleteStateUnknown: isUnknown}) {
			return
		}
	}
	e.add(nil, append(slices.Clone(last), e.requestsOf(one)...))
}

func (e *engagement[object]) take(obj any) (one object, ok bool) {
	one, ok = obj.(object)
	return one, ok && e.ctx.Err() == nil
}

// note adds the requests of an object now and before, since it may have changed between them.
func (e *engagement[object]) note(obj object, unchanged bool) {
	now := e.requestsOf(obj)
	before, ok := e.replace(client.ObjectKeyFromObject(obj), now)
	if !ok {
		return
	}
	var priority *int
	if unchanged {
		priority = new(handler.LowPriority)
	}
	e.add(priority, now)
	if !slices.Equal(before, now) {
		e.add(priority, before)
	}
}

// replace returns the previous requests, or false when the engagement has ended.
func (e *engagement[object]) replace(key types.NamespacedName, now []Request) (before []Request, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return nil, false
	}
	before = e.requests[key]
	if len(now) > 0 {
		e.requests[key] = now
	} else {
		delete(e.requests, key)
	}
	return before, true
}

func (e *engagement[object]) requestsOf(obj object) []Request {
	if e.source.options.Map == nil {
		return []Request{{Cluster: e.name, NamespacedName: client.ObjectKeyFromObject(obj)}}
	}
	return e.source.options.Map(e.ctx, e.name, obj)
}

func (e *engagement[object]) add(priority *int, requests []Request) {
	if fair, ok := e.source.queue.(fairQueue); ok {
		fair.AddFrom(string(e.name), priority, requests...)
		return
	}
	if queue, ok := e.source.queue.(priorityqueue.PriorityQueue[Request]); ok {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: priority}, requests...)
		return
	}
	for _, one := range requests {
		e.source.queue.Add(one)
	}
}
