// SPDX-License-Identifier: Apache-2.0

package contain

import "time"

// place is where an item waits.
type place int8

const (
	nowhere place = iota // the item is in work only
	delayed              // in Queue.delayed, until its time
	ready                // in Queue.ready
	aside                // ready, and waits for the end of the work on it
)

// item is an item that waits, is in work, or both.
type item[T comparable] struct {
	work     // valid while the item is in work
	key      T
	lane     string
	priority int
	order    uint64        // counts up, within a priority
	at       time.Duration // the end of the delay; since base, as are all times of the queue
	since    time.Duration // when the item became ready
	index    int           // in the heap of its place
	place    place
	inWork   bool
}

func earlierInOrder[T comparable](a, b *item[T]) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return a.order < b.order
}

func earlierInTime[T comparable](a, b *item[T]) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return earlierInOrder(a, b)
}

// items is a heap of items.
type items[T comparable] struct {
	list    []*item[T]
	earlier func(a, b *item[T]) bool
}

// Len implements heap.Interface.
func (h *items[T]) Len() int { return len(h.list) }

// Less implements heap.Interface.
func (h *items[T]) Less(a, b int) bool { return h.earlier(h.list[a], h.list[b]) }

// Swap implements heap.Interface.
func (h *items[T]) Swap(a, b int) {
	h.list[a], h.list[b] = h.list[b], h.list[a]
	h.list[a].index, h.list[b].index = a, b
}

// Push implements heap.Interface.
func (h *items[T]) Push(x any) {
	i, _ := x.(*item[T])
	i.index = len(h.list)
	h.list = append(h.list, i)
}

// Pop implements heap.Interface.
func (h *items[T]) Pop() any {
	last := len(h.list) - 1
	i := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return i
}
