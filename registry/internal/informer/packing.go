// SPDX-License-Identifier: Apache-2.0

package informer

import toolscache "k8s.io/client-go/tools/cache"

// Packing is how an informer keeps the objects in its store.
type Packing interface {
	// Pack returns what the store keeps of an object. It must have the object's key, and its DeepCopyObject must return an
	// equal object, because that is what the readers of the store call.
	Pack(obj any) any
	// Unpack returns an object that is equal to the one of which Pack has made packed.
	Unpack(packed any) any
}

// SetPacking sets how the store keeps objects. Transforms, handlers and the functions of indexes receive the objects
// themselves, which changes that wait for a handler hold; readers of the store receive what Pack has returned. It returns an
// error after the start.
func (i *Informer) SetPacking(p Packing) error {
	return i.change(func() { i.packing = p })
}

func (i *Informer) pack(obj any) any {
	if i.packing == nil {
		return obj
	}
	return i.packing.Pack(obj)
}

// unpack returns an object of the store, or of a change.
func (i *Informer) unpack(obj any) any {
	if i.packing == nil || obj == nil {
		return obj
	}
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		gone.Obj = i.packing.Unpack(gone.Obj)
		return gone
	}
	return i.packing.Unpack(obj)
}

// unpacking returns indexers whose functions receive the objects themselves. The namespace is known of a packed object.
// The caller holds the lock.
func (i *Informer) unpacking(indexers toolscache.Indexers) toolscache.Indexers {
	all := toolscache.Indexers{}
	for name, f := range indexers {
		if name == toolscache.NamespaceIndex {
			all[name] = f
			continue
		}
		i.indexed = true
		all[name] = func(obj any) ([]string, error) { return f(i.recall(obj)) }
	}
	return all
}

// recall is unpack for the functions of indexes.
func (i *Informer) recall(packed any) any {
	if known := i.known.Load(); known != nil {
		if obj, ok := (*known)[packed]; ok {
			return obj
		}
	}
	return i.unpack(packed)
}

// replace calls store with an object that replaces an older one, which is packed; nil if there is none. It returns the older
// object, unpacked if it had to unpack it. The caller holds the lock.
func (i *Informer) replace(before, obj any, store func(packed any) error) (any, error) {
	packed := i.pack(obj)
	if i.packing == nil || !i.indexed {
		return before, store(packed)
	}
	older := i.unpack(before)
	i.known.Store(&map[any]any{before: older, packed: obj})
	defer i.known.Store(nil)
	return older, store(packed)
}

// replaceAll calls store with a list. The caller holds the lock.
func (i *Informer) replaceAll(list []any, store func(packed []any) error) error {
	if i.packing == nil {
		return store(list)
	}
	packed := make([]any, len(list))
	for n, obj := range list {
		packed[n] = i.packing.Pack(obj)
	}
	if i.indexed {
		known := make(map[any]any, len(list))
		for n, obj := range list {
			known[packed[n]] = obj
		}
		i.known.Store(&known)
		defer i.known.Store(nil)
	}
	return store(packed)
}
