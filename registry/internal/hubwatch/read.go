// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// find may return nil. It needs the lock of the entry.
func (s *Subscription) find(key client.ObjectKey) client.Object {
	obj := s.entry.objects[key]
	if obj == nil || s.isClosed() || !s.has(s.want.Route.keyOf(obj)) {
		return nil
	}
	return obj
}

// Get copies an object into out. It waits for the initial objects, no longer than Options.Timeout.
func (s *Subscription) Get(ctx context.Context, key client.ObjectKey, out client.Object) error {
	if err := s.await(ctx); err != nil {
		return err
	}
	s.entry.mu.RLock()
	obj := s.find(key)
	s.entry.mu.RUnlock()
	if s.isClosed() {
		return ErrEnded
	}
	if obj == nil {
		kind := s.entry.of.Kind
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.String())
	}
	into, from := reflect.ValueOf(out), reflect.ValueOf(s.CopyOf(obj))
	if into.Type() != from.Type() {
		return fmt.Errorf("get %s: the objects are of type %T, not %T", key, obj, out)
	}
	into.Elem().Set(from.Elem())
	return nil
}

// CopyOf returns a copy of an object that says its kind.
func (s *Subscription) CopyOf(obj client.Object) client.Object {
	one := obj.DeepCopyObject().(client.Object)
	one.GetObjectKind().SetGroupVersionKind(s.entry.of.Kind)
	return one
}

// ErrEnded is the error of a Subscription that was closed.
var ErrEnded = errors.New("the app has ended, and its objects of the hub with it")

var errWhole = errors.New("a list of objects of the hub accepts no field selector, limit or continue token")

// List copies the objects into a list. It waits for the initial objects, no longer than Options.Timeout.
func (s *Subscription) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	if o.FieldSelector != nil && !o.FieldSelector.Empty() || o.Limit > 0 || o.Continue != "" {
		return errWhole
	}
	if err := s.await(ctx); err != nil {
		return err
	}
	selected := s.selected(o.Namespace)
	if s.isClosed() {
		return ErrEnded
	}
	items := make([]runtime.Object, 0, len(selected))
	for _, obj := range selected {
		if o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
			items = append(items, s.CopyOf(obj))
		}
	}
	if err := meta.SetList(into, items); err != nil {
		return fmt.Errorf("list %s into %T: %w", s.entry.of.Kind.Kind, into, err)
	}
	return nil
}

// selected calls no code of a module.
func (s *Subscription) selected(namespace string) (selected []client.Object) {
	e := s.entry
	e.mu.RLock()
	defer e.mu.RUnlock()
	ix := e.routes[s.want.Route]
	if ix == nil {
		return nil
	}
	for key := range s.keys {
		for object := range ix.objects[key] {
			if namespace == "" || namespace == object.Namespace {
				selected = append(selected, e.objects[object])
			}
		}
	}
	return selected
}

// Deleted returns the tombstone of an object, if it has left within the last hour.
func (s *Subscription) Deleted(key client.ObjectKey) (Tombstone, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.graves.find(key, time.Now())
}

func (s *Subscription) await(ctx context.Context) error {
	if s.isClosed() {
		return ErrEnded
	}
	if s.entry.isSynced() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.entry.pool.options.Timeout)
	defer cancel()
	select {
	case <-s.entry.synced:
		return nil
	case <-s.done:
		return ErrEnded
	case <-s.entry.ctx.Done():
		return context.Cause(s.entry.ctx)
	case <-ctx.Done():
		return fmt.Errorf("wait for the objects of %s in the hub: %w", s.entry.of.Kind.Kind, context.Cause(ctx))
	}
}
