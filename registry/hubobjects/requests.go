// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/hubwatch"
)

// Requests returns a source for one controller, for WatchesRawSource: the key of each object that is new, has changed,
// or has gone. Call it again for another controller.
func (o *Objects) Requests() source.SyncingSource {
	return newSource(o, func(_ context.Context, c hubwatch.Change, add func(reconcile.Request)) {
		add(reconcile.Request{NamespacedName: c.Key})
	})
}

// Map returns a source for one controller with the requests of f for an object of the hub: for its state now, and for
// that before, so that an object which stops leading to a request makes it, too. f gets copies. It delays no other app;
// a panic, or a call longer than a reconcile may take, fails the module.
func Map[request comparable](o *Objects, f handler.TypedMapFunc[client.Object, request]) source.TypedSyncingSource[request] {
	return newSource(o, func(ctx context.Context, c hubwatch.Change, add func(request)) {
		known := map[request]struct{}{}
		for _, obj := range []client.Object{c.Before, c.After} {
			if obj == nil {
				continue
			}
			for _, one := range f(ctx, o.inner.CopyOf(obj)) {
				if _, twice := known[one]; !twice {
					known[one] = struct{}{}
					add(one)
				}
			}
		}
	})
}

type requests[request comparable] struct {
	of      *Objects
	deliver func(ctx context.Context, c hubwatch.Change, add func(request))

	start sync.Once
	ready chan struct{} // closed when the initial objects were requested
}

func newSource[request comparable](
	o *Objects, deliver func(context.Context, hubwatch.Change, func(request)),
) *requests[request] {
	return &requests[request]{of: o, deliver: deliver, ready: make(chan struct{})}
}

var errStarted = errors.New("a source of hub objects is for one controller; call Requests or Map for each of them")

func (r *requests[request]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	err := errStarted
	r.start.Do(func() {
		cache.Awaits(ctx, r.of.kind, r.of.inner.Type())
		err = nil
		if !r.of.binding.Go(func() { r.run(ctx, queue) }) {
			err = context.Cause(r.of.binding.Context)
		}
	})
	return err
}

func (r *requests[request]) WaitForSync(ctx context.Context) error {
	select {
	case <-r.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *requests[request]) run(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) {
	o := r.of
	listener := o.inner.Listen()
	defer listener.Close()
	synced, ended := o.inner.Synced(), o.binding.Context.Done()
	for waits := synced; ; {
		isSynced := isClosed(synced) // before the take, which then has all initial objects
		for _, c := range listener.Take() {
			if ctx.Err() != nil || isClosed(ended) {
				return
			}
			r.add(ctx, c, queue)
		}
		if isSynced && waits != nil {
			waits = nil
			close(r.ready)
		}
		select {
		case <-listener.Changed():
		case <-waits:
		case <-ctx.Done():
			return
		case <-ended:
			return
		}
	}
}

func (r *requests[request]) add(ctx context.Context, c hubwatch.Change, queue workqueue.TypedRateLimitingInterface[request]) {
	guard := r.of.binding.Guard
	if guard.IsBroken() {
		return
	}
	guard.CallBounded("source of hub objects", func() {
		r.deliver(ctx, c, func(one request) { queue.Add(one) })
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
