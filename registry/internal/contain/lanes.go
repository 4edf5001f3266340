// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"container/heap"
	"slices"
)

// lanes have the ready items of a queue.
type lanes[T comparable] struct {
	laneOf func(T) string
	weight func(lane string) int
	all    map[string]*lane[T]
	turns  []*lane[T] // the lanes with items, beginning with the current one
	size   int
}

type lane[T comparable] struct {
	name  string
	items items[T]
	left  int // of its turn
}

func (l *lanes[T]) push(i *item[T]) {
	in := l.all[i.lane]
	if in == nil {
		in = &lane[T]{name: i.lane, items: items[T]{earlier: earlierInOrder[T]}}
		l.all[i.lane] = in
	}
	if in.items.Len() == 0 {
		in.left = max(l.weight(in.name), 1)
		l.turns = append(l.turns, in)
	}
	heap.Push(&in.items, i)
	l.size++
}

// pop takes from the lane whose turn it is. There must be an item.
func (l *lanes[T]) pop() *item[T] {
	current := l.turns[0]
	i := current.items.list[0]
	l.remove(i)
	if current.left--; current.left <= 0 && current.items.Len() > 0 {
		current.left = max(l.weight(current.name), 1)
		l.turns = append(l.turns[1:], current)
	}
	return i
}

// remove keeps a lane only while it has items, or if it is the only one.
func (l *lanes[T]) remove(i *item[T]) {
	from := l.all[i.lane]
	heap.Remove(&from.items, i.index)
	l.size--
	switch {
	case from.items.Len() > 0:
		return
	case len(l.turns) == 1:
		l.turns = l.turns[:0]
	case l.turns[0] == from:
		l.turns = l.turns[1:]
	default:
		l.turns = slices.DeleteFunc(l.turns, func(one *lane[T]) bool { return one == from })
	}
	if len(l.all) > 1 {
		delete(l.all, from.name)
	}
}

// fix follows a change of an item's priority.
func (l *lanes[T]) fix(i *item[T]) { heap.Fix(&l.all[i.lane].items, i.index) }

func (l *lanes[T]) clear() { l.all, l.turns, l.size = map[string]*lane[T]{}, nil, 0 }
