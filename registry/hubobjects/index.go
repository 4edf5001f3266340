// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"

	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
)

// index has the objects of a route, and their users, by key.
type index struct {
	route   Route
	objects map[string]map[client.ObjectKey]struct{}
	users   map[string]map[*Objects]struct{}
}

// put and drop make and remove the set of a key.
func put[of comparable](sets map[string]map[of]struct{}, key string, one of) {
	if sets[key] == nil {
		sets[key] = map[of]struct{}{}
	}
	sets[key][one] = struct{}{}
}

func drop[of comparable](sets map[string]map[of]struct{}, key string, one of) {
	delete(sets[key], one)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}

// event has no object before or after for one that was not there or has gone.
type event struct {
	key           client.ObjectKey
	before, after client.Object
	// last is for a tombstone, and seen says that the delete was seen.
	last client.Object
	seen bool
}

// OnAdd, OnUpdate and OnDelete are called by the informer of the cache.
func (i *informer) OnAdd(obj any, _ bool) { i.store(obj) }

func (i *informer) OnUpdate(_, obj any) { i.store(obj) }

func (i *informer) OnDelete(obj any) {
	unknown, inferred := obj.(toolscache.DeletedFinalStateUnknown)
	if inferred {
		obj = unknown.Obj
	}
	last, ok := obj.(client.Object)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(last)
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.objects[key]
	if before == nil {
		return
	}
	delete(i.objects, key)
	i.dispatch(event{key: key, before: before, last: i.of.remains(last), seen: !inferred})
}

func (i *informer) store(obj any) {
	after, ok := obj.(client.Object)
	if !ok || i.pool.isHidden(after.GetNamespace()) { // It does not rely on the API server, which is asked to leave it out.
		return
	}
	key := client.ObjectKeyFromObject(after)
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.objects[key]
	same := before != nil && before.GetResourceVersion() == after.GetResourceVersion() && before.GetUID() == after.GetUID()
	if same || i.objects == nil {
		return
	}
	i.objects[key] = after
	i.dispatch(event{key: key, before: before, after: after, last: i.of.remains(before)})
}

// dispatch needs the lock.
func (i *informer) dispatch(e event) {
	for route, ix := range i.routes {
		was, is := route.keyOf(e.before), route.keyOf(e.after)
		if was != is {
			drop(ix.objects, was, e.key)
			if is != "" {
				put(ix.objects, is, e.key)
			}
		}
		for o := range ix.users[was] {
			if !o.keys.Has(is) {
				o.note(e, true, false)
			}
		}
		for o := range ix.users[is] {
			o.note(e, o.keys.Has(was), true)
		}
	}
}

// indexOf makes the index for the first user. It needs the lock.
func (i *informer) indexOf(route Route) *index {
	if ix := i.routes[route]; ix != nil {
		return ix
	}
	ix := &index{route, map[string]map[client.ObjectKey]struct{}{}, map[string]map[*Objects]struct{}{}}
	for object, obj := range i.objects {
		if key := route.keyOf(obj); key != "" {
			put(ix.objects, key, object)
		}
	}
	i.routes[route] = ix
	return ix
}

func (i *informer) subscribe(s *Source, route Route, keys []string) *Objects {
	if route == All() {
		keys = []string{keyOfAll}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	o := &Objects{
		source: s, informer: i, index: i.indexOf(route), keys: sets.New(keys...), listeners: map[*listener]struct{}{},
		graves: utilcache.NewLRUExpireCache(maxGraves),
	}
	o.ctx, o.cancel = context.WithCancel(s.binding.Context)
	i.users[o] = struct{}{}
	for _, key := range keys {
		put(o.index.users, key, o)
	}
	return o
}

// close ends the informer, too, if it has no other user. The app or the watch has ended.
func (o *Objects) close() {
	o.cancel()
	o.unlisted()
	o.mu.Lock()
	o.listeners = nil
	o.mu.Unlock()
	o.graves.RemoveAll(func(any) bool { return true })
	i := o.informer
	i.pool.mu.Lock()
	defer i.pool.mu.Unlock()
	i.mu.Lock()
	defer i.mu.Unlock()
	for key := range o.keys {
		drop(o.index.users, key, o)
	}
	if len(o.index.users) == 0 {
		delete(i.routes, o.index.route)
	}
	if delete(i.users, o); len(i.users) == 0 {
		delete(i.pool.informers, i.of.name())
		i.cancel()
		i.objects = nil
	}
	o.source.binding.Blocked(o.what(), cache.Block{})
}
