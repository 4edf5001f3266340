// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// source notes how a list comes, because streamed objects pass the transform one by one.
type source struct {
	inner    toolscache.ListerWatcherWithContext
	streamed atomic.Bool // the list in progress, or the last one, was streamed
}

func (s *source) listerWatcher() toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			s.streamed.Store(false)
			return s.inner.ListWithContext(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil && *o.SendInitialEvents {
				s.streamed.Store(true)
			}
			return s.inner.WatchWithContext(ctx, o)
		},
	}
}

// sink is the store of a reflector, which calls it from one goroutine, and Resync from another.
type sink struct{ informer *Informer }

var (
	_ toolscache.TransformingStore      = (*sink)(nil)
	_ toolscache.ReflectorBookmarkStore = (*sink)(nil)
)

func (s *sink) Transformer() toolscache.TransformFunc { return s.informer.transform }

func (s *sink) transformed(obj any) (any, error) {
	if s.informer.transform == nil {
		return obj, nil
	}
	return s.informer.transform(obj)
}

func (s *sink) Add(obj any) error { return s.put(obj) }

func (s *sink) Update(obj any) error { return s.put(obj) }

func (s *sink) put(obj any) error {
	obj, err := s.transformed(obj)
	if err != nil {
		return err
	}
	i := s.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	before, known, err := i.store.Get(obj)
	if err != nil {
		return err
	}
	if err := i.store.Update(obj); err != nil {
		return err
	}
	if known {
		i.tell(change{kind: updated, before: before, after: obj})
	} else {
		i.tell(change{kind: added, after: obj})
	}
	return nil
}

func (s *sink) Delete(obj any) error {
	obj, err := s.transformed(obj)
	if err != nil {
		return err
	}
	i := s.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known, err := i.store.Get(obj); err != nil || !known {
		return err
	}
	if err := i.store.Delete(obj); err != nil {
		return err
	}
	i.tell(change{kind: deleted, before: obj})
	return nil
}

func (s *sink) Replace(list []any, version string) error {
	if !s.informer.source.streamed.Load() {
		if err := s.transformAll(list); err != nil {
			return err
		}
	}
	i := s.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	changes, err := i.differences(list)
	if err != nil {
		return err
	}
	if err := i.store.Replace(list, version); err != nil {
		return err
	}
	i.tell(changes...)
	i.synced.raise()
	return nil
}

func (s *sink) Bookmark(version string) error {
	s.informer.store.Bookmark(version)
	return nil
}

func (s *sink) transformAll(list []any) error {
	for n, obj := range list {
		var err error
		if list[n], err = s.transformed(obj); err != nil {
			return err
		}
	}
	return nil
}

// differences needs the lock.
func (i *Informer) differences(list []any) ([]change, error) {
	changes := make([]change, 0, len(list)+1)
	if !i.synced.happened() { // The store is empty.
		for _, obj := range list {
			changes = append(changes, change{kind: added, after: obj, initial: true})
		}
		return append(changes, change{kind: complete}), nil
	}
	listed := make(map[string]bool, len(list))
	for _, obj := range list {
		key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return nil, err
		}
		listed[key] = true
		if before, known, _ := i.store.GetByKey(key); known {
			changes = append(changes, change{kind: updated, before: before, after: obj})
		} else {
			changes = append(changes, change{kind: added, after: obj})
		}
	}
	for _, key := range i.store.ListKeys() {
		if listed[key] {
			continue
		}
		before, _, _ := i.store.GetByKey(key)
		changes = append(changes, change{kind: deleted, before: toolscache.DeletedFinalStateUnknown{Key: key, Obj: before}})
	}
	return changes, nil
}

func (s *sink) Resync() error {
	i := s.informer
	i.mu.Lock()
	defer i.mu.Unlock()
	var changes []change
	for _, obj := range i.store.List() {
		changes = append(changes, change{kind: updated, before: obj, after: obj})
	}
	for h := range i.handlers {
		if h.due {
			h.add(changes)
		}
	}
	return nil
}
