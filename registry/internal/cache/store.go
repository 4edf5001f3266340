// SPDX-License-Identifier: Apache-2.0

package cache

import (
	toolscache "k8s.io/client-go/tools/cache"
)

// sink is the store of a reflector, which calls it from one goroutine, and Resync from another.
type sink struct{ *Informer }

var (
	_ toolscache.TransformingStore      = sink{}
	_ toolscache.ReflectorBookmarkStore = sink{}
)

func (s sink) Transformer() toolscache.TransformFunc { return s.receive }

func (s sink) Add(obj any) error { return s.put(obj) }

func (s sink) Update(obj any) error { return s.put(obj) }

func (s sink) put(obj any) error {
	obj, err := s.receive(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known, err := s.store.Get(obj)
	if err != nil {
		return err
	}
	if err := s.store.Update(obj); err != nil {
		return err
	}
	if known {
		s.tell(change{kind: updated, before: before, after: obj})
	} else {
		s.tell(change{kind: added, after: obj})
	}
	return nil
}

func (s sink) Delete(obj any) error {
	obj, err := s.receive(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known, err := s.store.Get(obj); err != nil || !known {
		return err
	}
	if err := s.store.Delete(obj); err != nil {
		return err
	}
	s.tell(change{kind: deleted, before: obj})
	return nil
}

func (s sink) Replace(list []any, version string) error {
	s.streaming.Store(false)
	for n := range list {
		if s.streamed.Load() {
			break // each object has passed the transform when it came
		}
		var err error
		if list[n], err = s.receive(list[n]); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changes, err := s.differences(list)
	if err != nil {
		return err
	}
	if err := s.store.Replace(list, version); err != nil {
		return err
	}
	s.tell(changes...)
	s.synced.raise()
	return nil
}

func (s sink) Bookmark(version string) error {
	s.store.Bookmark(version)
	return nil
}

// differences needs the lock.
func (s sink) differences(list []any) ([]change, error) {
	changes := make([]change, 0, len(list)+1)
	if !s.synced.happened() { // The store is empty.
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
		if before, known, _ := s.store.GetByKey(key); known {
			changes = append(changes, change{kind: updated, before: before, after: obj})
		} else {
			changes = append(changes, change{kind: added, after: obj})
		}
	}
	for _, key := range s.store.ListKeys() {
		if listed[key] {
			continue
		}
		before, _, _ := s.store.GetByKey(key)
		changes = append(changes, change{kind: deleted, before: toolscache.DeletedFinalStateUnknown{Key: key, Obj: before}})
	}
	return changes, nil
}

func (s sink) Resync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var changes []change
	for _, obj := range s.store.List() {
		changes = append(changes, change{kind: updated, before: obj, after: obj})
	}
	for h := range s.handlers {
		if h.due {
			h.add(changes)
		}
	}
	return nil
}
