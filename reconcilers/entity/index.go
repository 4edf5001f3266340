// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
)

// index finds the secondaries of one primary, with the lives that made them, in a time that does not grow with the
// others.
type index[id comparable] struct {
	mu     sync.Mutex
	owners map[id]string
	ids    map[string]map[id]bucket.Birth
}

func newIndex[id comparable]() *index[id] {
	return &index[id]{owners: map[id]string{}, ids: map[string]map[id]bucket.Birth{}}
}

// set returns the primaries that it concerns: the one before, and that of now.
func (x *index[id]) set(one id, of Owner) []string {
	owner := of.Key
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.owners[one]
	if owner != before {
		x.remove(one, before)
	}
	if owner != "" {
		if x.ids[owner] == nil {
			x.ids[owner] = map[id]bucket.Birth{}
		}
		x.owners[one], x.ids[owner][one] = owner, of.Life
	}
	return slices.DeleteFunc(slices.Compact([]string{before, owner}), func(key string) bool { return key == "" })
}

func (x *index[id]) remove(one id, owner string) {
	delete(x.owners, one)
	delete(x.ids[owner], one)
	if len(x.ids[owner]) == 0 {
		delete(x.ids, owner)
	}
}

func (x *index[id]) of(owner string, f func(bucket.Birth) bool) []id {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []id
	for one, life := range x.ids[owner] {
		if f(life) {
			all = append(all, one)
		}
	}
	return all
}

func anyLife(bucket.Birth) bool { return true }

func (x *index[id]) lives(owner string, to map[bucket.Birth]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, life := range x.ids[owner] {
		to[life] = true
	}
}

func (x *index[id]) primaries() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Keys(x.ids))
}

func (x *index[id]) size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.owners)
}

type objects struct {
	*index[types.NamespacedName]
	empty  client.Object
	kind   schema.GroupVersionKind
	marks  Marks
	reader client.Reader
	left   leftovers
}

func newObjects(empty client.Object, kind schema.GroupVersionKind, m Marks, r client.Reader) *objects {
	return &objects{index: newIndex[types.NamespacedName](), empty: empty, kind: kind, marks: m, reader: r, left: newLeftovers()}
}

func (o *objects) source(c cache.Cache) source.TypedSource[Request] {
	type queue = workqueue.TypedRateLimitingInterface[Request]
	return source.TypedKind[client.Object, Request](c, o.empty, handler.TypedFuncs[client.Object, Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[client.Object], q queue) {
			op := OperationSecondary
			if e.IsInInitialList {
				op = OperationResync
			}
			o.see(e.Object, q, op)
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[client.Object], q queue) {
			o.see(e.ObjectNew, q, OperationSecondary)
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[client.Object], q queue) {
			o.request(q, OperationSecondary, o.set(client.ObjectKeyFromObject(e.Object), Owner{}))
		},
	})
}

func (o *objects) see(obj client.Object, q workqueue.TypedRateLimitingInterface[Request], op Operation) {
	owner, _ := o.marks.OwnerOf(obj)
	o.request(q, op, o.set(client.ObjectKeyFromObject(obj), owner))
}

// hubSource: an event may be of an object that has gone, so the index follows what the hub has now.
func (o *objects) hubSource(from *hubobjects.Objects) source.TypedSource[Request] {
	return hubobjects.Map(from, func(ctx context.Context, obj client.Object) []Request {
		key, owner := client.ObjectKeyFromObject(obj), Owner{}
		now := o.empty.DeepCopyObject().(client.Object) //nolint:forcetypeassert // A deep copy has the type of the original.
		switch err := from.Get(ctx, key, now); {
		case err == nil:
			owner, _ = o.marks.OwnerOf(now)
		case !apierrors.IsNotFound(err): // It is not known to have gone.
			owner, _ = o.marks.OwnerOf(obj)
		}
		return requests(o.set(key, owner))
	})
}

func (o *objects) ofPrimary(ctx context.Context, primary string, f func(bucket.Birth) bool) ([]client.Object, error) {
	var all []client.Object
	for _, key := range o.of(primary, f) {
		obj := o.empty.DeepCopyObject().(client.Object) //nolint:forcetypeassert // A deep copy has the type of the original.
		switch err := o.reader.Get(ctx, key, obj); {
		case apierrors.IsNotFound(err): // Its event follows, and changes the index.
		case err != nil:
			return nil, fmt.Errorf("read %s %s of %s: %w", o.kind.Kind, key, primary, err)
		default:
			all = append(all, obj)
		}
	}
	return all, nil
}

func (o *objects) request(q workqueue.TypedRateLimitingInterface[Request], op Operation, primaries []string) {
	for _, key := range primaries {
		enqueue(q, Request{Key: key}, op, 0)
	}
}
