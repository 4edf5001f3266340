// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Objects are the objects of the hub that belong to an app, and end with it. They are safe for use by many goroutines.
type Objects struct {
	source   *Source
	informer *informer
	index    *index
	keys     sets.Set[string] // never changes
	ctx      context.Context  //nolint:containedctx // The life of the Objects, within that of the app.
	cancel   context.CancelFunc
	unlisted func()                    // takes them from the sources of the app
	watches  int                       // of the lock of the source; those of the life of the app are never taken back
	graves   *utilcache.LRUExpireCache // of Tombstones

	mu        sync.Mutex // protects the field; held for a few instructions
	listeners map[*listener]struct{}
}

var _ client.Reader = (*Objects)(nil)

// Get copies an object into obj, which must have the type of the selection's Object. An object that does not belong to
// the app is not found. Get waits for the initial objects, ten seconds at most.
func (o *Objects) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if err := o.await(ctx); err != nil {
		return err
	}
	o.informer.mu.RLock()
	found := o.find(key)
	o.informer.mu.RUnlock()
	if err := o.ended(); err != nil {
		return err
	}
	if found == nil {
		kind := o.informer.of.kind
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.String())
	}
	into, from := reflect.ValueOf(obj), reflect.ValueOf(o.copyOf(found))
	if into.Type() != from.Type() {
		return fmt.Errorf("get %s: the objects are of type %T, not %T", key, found, obj)
	}
	into.Elem().Set(from.Elem())
	return nil
}

var errWhole = errors.New("a list of objects of the hub accepts no field selector, limit or continue token")

// List copies the objects of the app into a list. It accepts a namespace and labels, and no field selector, limit or
// continue token. It waits for the initial objects, ten seconds at most.
func (o *Objects) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	of := (&client.ListOptions{}).ApplyOptions(opts)
	if of.FieldSelector != nil && !of.FieldSelector.Empty() || of.Limit > 0 || of.Continue != "" {
		return errWhole
	}
	if err := o.await(ctx); err != nil {
		return err
	}
	var found []client.Object
	o.informer.mu.RLock() // for no code of a module, such as the selector
	for _, key := range o.own() {
		if of.Namespace == "" || of.Namespace == key.Namespace {
			found = append(found, o.informer.objects[key])
		}
	}
	o.informer.mu.RUnlock()
	if err := o.ended(); err != nil {
		return err
	}
	items := make([]runtime.Object, 0, len(found))
	for _, obj := range found {
		if of.LabelSelector == nil || of.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
			items = append(items, o.copyOf(obj))
		}
	}
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("list %s into %T: %w", o.informer.of.kind.Kind, list, err)
	}
	return nil
}

func (o *Objects) await(ctx context.Context) error {
	i, app := o.informer, o.ctx
	if o.ended() != nil || isClosed(i.synced) {
		return o.ended()
	}
	ctx, cancel := context.WithTimeout(ctx, i.pool.options.Chain.Timeout)
	defer cancel()
	select {
	case <-i.synced:
		return nil
	case <-app.Done():
		return context.Cause(app)
	case <-i.ctx.Done():
		return context.Cause(i.ctx)
	case <-ctx.Done():
		return fmt.Errorf("wait for the objects of %s in the hub: %w", i.of.kind.Kind, context.Cause(ctx))
	}
}

// ended returns why the app or the watch has ended.
func (o *Objects) ended() error { return context.Cause(o.ctx) }

// find may return nil. It needs the lock of the informer.
func (o *Objects) find(key client.ObjectKey) client.Object {
	obj := o.informer.objects[key]
	if !o.keys.Has(o.index.route.keyOf(obj)) {
		return nil
	}
	return obj
}

// own has the keys of the app's objects in the hub. It needs the lock of the informer.
func (o *Objects) own() (all []client.ObjectKey) {
	for key := range o.keys {
		all = slices.AppendSeq(all, maps.Keys(o.index.objects[key]))
	}
	return all
}

// copyOf returns a copy of an object that says its kind.
func (o *Objects) copyOf(obj client.Object) client.Object {
	one := obj.DeepCopyObject().(client.Object)
	one.GetObjectKind().SetGroupVersionKind(o.informer.of.kind)
	return one
}

// inHub tells a kind, or a type, from one that is watched in the remote.
const inHub = " of the hub"

// what names the selection, as Binding.Blocked receives it.
func (o *Objects) what() string { return o.informer.of.name() + inHub }

// blind returns the kind of the objects if the informer has not synced, or cannot list and watch; empty otherwise.
func (o *Objects) blind(now time.Time) string {
	if o.ended() != nil || isClosed(o.informer.synced) && o.informer.cache.Blind(user, now) == "" {
		return ""
	}
	return o.informer.of.kind.Kind + " in the hub"
}
