// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type index struct {
	objects       map[string]map[client.ObjectKey]struct{}
	subscriptions map[string]map[*Subscription]struct{}
	all           map[*Subscription]struct{}
}

// before or after is nil for an object that was not there or has gone.
type change struct {
	key           client.ObjectKey
	before, after client.Object
	// last is for a tombstone, and seen says that the delete was seen.
	last client.Object
	seen bool
}

// OnAdd, OnUpdate and OnDelete are called by the informer.
func (e *entry) OnAdd(obj any, _ bool) { e.store(obj) }

func (e *entry) OnUpdate(_, obj any) { e.store(obj) }

func (e *entry) OnDelete(obj any) {
	unknown, inferred := obj.(toolscache.DeletedFinalStateUnknown)
	if inferred {
		obj = unknown.Obj
	}
	last, ok := obj.(client.Object)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(last)
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.objects[key]
	if before == nil {
		return
	}
	delete(e.objects, key)
	e.dispatch(change{key: key, before: before, last: e.remains(last), seen: !inferred})
}

func (e *entry) store(obj any) {
	after, ok := obj.(client.Object)
	if !ok || e.isHidden(after) {
		return
	}
	key := client.ObjectKeyFromObject(after)
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.objects[key]
	same := before != nil && before.GetResourceVersion() == after.GetResourceVersion() && before.GetUID() == after.GetUID()
	if same || e.routes == nil {
		return
	}
	e.objects[key] = after
	e.dispatch(change{key: key, before: before, after: after, last: e.remains(before)})
}

// isHidden does not rely on the API server, which is asked to leave such objects out.
func (e *entry) isHidden(obj client.Object) bool {
	hidden := e.pool.options.Hidden
	return hidden != "" && obj.GetNamespace() == hidden
}

// dispatch needs the lock.
func (e *entry) dispatch(c change) {
	for route, ix := range e.routes {
		ix.dispatch(route, c)
	}
}

func (ix *index) dispatch(route Route, c change) {
	was, is := route.keyOf(c.before), route.keyOf(c.after)
	if was != is {
		ix.remove(was, c.key)
		ix.add(is, c.key)
	}
	for s := range ix.subscriptions[was] {
		if !s.has(is) {
			s.left(c)
		}
	}
	for s := range ix.subscriptions[is] {
		s.changed(c, s.has(was))
	}
}

func (ix *index) add(key string, object client.ObjectKey) {
	if key == "" {
		return
	}
	if ix.objects[key] == nil {
		ix.objects[key] = map[client.ObjectKey]struct{}{}
	}
	ix.objects[key][object] = struct{}{}
}

func (ix *index) remove(key string, object client.ObjectKey) {
	delete(ix.objects[key], object)
	if len(ix.objects[key]) == 0 {
		delete(ix.objects, key)
	}
}

// indexOf makes the index for the first subscription. It needs the lock.
func (e *entry) indexOf(route Route) *index {
	if ix := e.routes[route]; ix != nil {
		return ix
	}
	ix := &index{
		objects:       map[string]map[client.ObjectKey]struct{}{},
		subscriptions: map[string]map[*Subscription]struct{}{}, all: map[*Subscription]struct{}{},
	}
	for key, obj := range e.objects {
		ix.add(route.keyOf(obj), key)
	}
	e.routes[route] = ix
	return ix
}

func (e *entry) subscribe(w Want) *Subscription {
	s := newSubscription(e, w)
	e.mu.Lock()
	defer e.mu.Unlock()
	ix := e.indexOf(w.Route)
	ix.all[s] = struct{}{}
	for key := range s.keys {
		if ix.subscriptions[key] == nil {
			ix.subscriptions[key] = map[*Subscription]struct{}{}
		}
		ix.subscriptions[key][s] = struct{}{}
	}
	return s
}

// unsubscribe also removes the index of a route without subscriptions.
func (e *entry) unsubscribe(s *Subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ix := e.routes[s.want.Route]
	if ix == nil {
		return
	}
	delete(ix.all, s)
	for key := range s.keys {
		delete(ix.subscriptions[key], s)
		if len(ix.subscriptions[key]) == 0 {
			delete(ix.subscriptions, key)
		}
	}
	if len(ix.all) == 0 {
		delete(e.routes, s.want.Route)
	}
}
