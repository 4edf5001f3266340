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
)

// Requests returns a source for one controller, for WatchesRawSource: the key of each object that is new, has changed,
// or has gone. Call it again for another controller.
func (o *Objects) Requests() source.SyncingSource {
	return newSource(o, func(_ context.Context, c change, add func(reconcile.Request)) {
		add(reconcile.Request{NamespacedName: c.key})
	})
}

// Map returns a source for one controller with the requests of f for an object of the hub: for its state now, and for
// that before, so that an object which stops leading to a request makes it, too. f gets copies. It delays no other app;
// a panic, or a call longer than a reconcile may take, fails the module.
func Map[request comparable](o *Objects, f handler.TypedMapFunc[client.Object, request]) source.TypedSyncingSource[request] {
	return newSource(o, func(ctx context.Context, c change, add func(request)) {
		known := map[request]struct{}{}
		for _, obj := range []client.Object{c.before, c.after} {
			if obj == nil {
				continue
			}
			for _, one := range f(ctx, o.copyOf(obj)) {
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
	deliver func(ctx context.Context, c change, add func(request))

	start sync.Once
	ready chan struct{} // closed when the initial objects were requested
}

func newSource[request comparable](o *Objects, deliver func(context.Context, change, func(request))) *requests[request] {
	return &requests[request]{of: o, deliver: deliver, ready: make(chan struct{})}
}

var errStarted = errors.New("a source of hub objects is for one controller; call Requests or Map for each of them")

func (r *requests[request]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	err := errStarted
	r.start.Do(func() {
		err = nil
		kind := r.of.informer.of.kind.GroupKind().String() + inHub
		if !r.of.source.binding.Go(ctx, kind, r.of.what(), func() { r.run(ctx, queue.Add) }) {
			err = r.of.ended()
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

func (r *requests[request]) run(ctx context.Context, add func(request)) {
	l, synced, app := r.of.listen(), r.of.informer.synced, &r.of.source.binding
	defer l.close()
	for waits := synced; ; {
		isSynced := isClosed(synced) // before the take, which then has all initial objects
		for _, c := range l.take() {
			if ctx.Err() != nil || r.of.ctx.Err() != nil {
				return
			}
			app.Call(func() { r.deliver(ctx, c, add) })
		}
		if isSynced && waits != nil {
			waits = nil
			close(r.ready)
		}
		select {
		case <-l.changed:
		case <-waits:
		case <-ctx.Done():
			return
		case <-r.of.ctx.Done():
			return
		}
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

// listener collects the objects that have changed, until they are taken. Changes of one object are one.
type listener struct {
	of      *Objects
	changed chan struct{} // has a value when there is something to take

	mu    sync.Mutex // protects the field; held for a few instructions
	dirty map[client.ObjectKey]client.Object
}

// listen returns a listener that has all objects to take. The caller must close it.
func (o *Objects) listen() *listener {
	l := &listener{of: o, changed: make(chan struct{}, 1), dirty: map[client.ObjectKey]client.Object{}}
	o.informer.mu.RLock() // Between the objects that there are and the first change, no change is missed.
	defer o.informer.mu.RUnlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listeners == nil { // The app has ended.
		return l
	}
	o.listeners[l] = struct{}{}
	for _, key := range o.own() {
		l.note(key, nil)
	}
	return l
}

func (l *listener) close() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	delete(l.of.listeners, l)
}

// note: the object belonged to the app before, and belongs to it now.
func (o *Objects) note(e event, had, has bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listeners == nil { // The app has ended.
		return
	}
	if has {
		o.graves.Remove(e.key)
	} else {
		o.graves.Add(e.key, Tombstone{Object: e.last, Seen: e.seen}, gravesFor)
	}
	before := e.before
	if !had {
		before = nil
	}
	for l := range o.listeners {
		l.note(e.key, before)
	}
}

func (l *listener) note(key client.ObjectKey, before client.Object) {
	l.mu.Lock()
	if _, noted := l.dirty[key]; !noted {
		l.dirty[key] = before
	}
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// change is since the object was last taken: before is what the listener knows, after the state of now; nil for none.
// All apps share the objects.
type change struct {
	key           client.ObjectKey
	before, after client.Object
}

func (l *listener) take() []change {
	i := l.of.informer
	i.mu.RLock() // No object changes between the notes and the states, so the next before is this after.
	defer i.mu.RUnlock()
	l.mu.Lock()
	taken := l.dirty
	l.dirty = map[client.ObjectKey]client.Object{}
	l.mu.Unlock()
	if len(taken) == 0 || l.of.ended() != nil {
		return nil
	}
	changes := make([]change, 0, len(taken))
	for key, before := range taken {
		changes = append(changes, change{key, before, l.of.find(key)})
	}
	return changes
}
