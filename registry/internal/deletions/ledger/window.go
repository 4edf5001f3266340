// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"
)

// slots is into how many parts a Window is divided.
const slots = 60

// slot is the part of a Window in which deletes and creates are counted together.
const slot = Window / slots

// slotOf returns the number of the slot of a time. Slots count from the first time, so that a change of the wall clock does
// not matter.
func (l *Ledger) slotOf(now time.Time) int64 {
	if l.began.IsZero() {
		l.began = now
	}
	return int64(now.Sub(l.began) / slot)
}

// window counts the deletes and creates of the last Window. A delete counts for up to one slot longer than the Window, and
// a create for up to one slot less, so that the loss is never counted too low.
type window struct {
	latest           int64 // the number of the latest slot
	deleted, created [slots + 1]int
	owned            [slots + 1]int // the largest number of objects that the module has said it owns
	// gone has the slots in which deletes of objects were counted, by UID, and by nameKey of those that may still be there.
	gone  map[string]int64
	swept int64 // the slot in which gone was last full and forgot what counts no longer
}

// maxGone is the number of UIDs and names that a window knows. Deletes of other objects count each time.
const maxGone = 1000

// nameKey returns the key of a name.
func nameKey(name string) string { return "name " + name }

// isGone reports whether a delete of this object counts already. A module may delete an object again and again while its
// finalizers keep it.
func (w *window) isGone(key string) bool {
	at, ok := w.gone[key]
	return ok && w.latest-at <= slots
}

// note notes that the delete of an object counts.
func (w *window) note(key string) {
	if key == "" {
		return
	}
	if len(w.gone) >= maxGone && w.swept != w.latest {
		w.swept = w.latest
		maps.DeleteFunc(w.gone, func(_ string, at int64) bool { return w.latest-at > slots })
	}
	if len(w.gone) < maxGone {
		if w.gone == nil {
			w.gone = map[string]int64{}
		}
		w.gone[key] = w.latest
	}
}

// at moves the window to a slot and returns its index. A slot before the latest slot counts as the latest slot.
func (w *window) at(number int64) int {
	for ; w.latest < number; w.latest++ {
		if number-w.latest > slots {
			*w = window{latest: number}
			break
		}
		next := (w.latest + 1) % (slots + 1)
		w.deleted[next], w.created[next], w.owned[next] = 0, 0, 0
	}
	return int(w.latest % (slots + 1))
}

// loss returns the deletes less the creates of the Window that ends with the latest slot, and never less than 0.
func (w *window) loss() int {
	oldest := (w.latest + 1) % (slots + 1)
	loss := 0
	for i := range w.deleted {
		loss += w.deleted[i]
		if int64(i) != oldest {
			loss -= w.created[i]
		}
	}
	return max(loss, 0)
}

// owns notes how many objects the module says it owns, and returns the largest number of the Window. A module says it
// before each delete, or once for many deletes; either way the largest number is the number before the first delete.
func (w *window) owns(objects int) int {
	i := w.latest % (slots + 1)
	w.owned[i] = max(w.owned[i], objects)
	return slices.Max(w.owned[:])
}

// isEmpty reports whether no delete and no create is counted.
func (w *window) isEmpty() bool {
	return w.deleted == [slots + 1]int{} && w.created == [slots + 1]int{}
}

// fleet has the windows of one module, resource and cause, by target, and the sum of their losses.
type fleet struct {
	latest  int64 // the slot for which sum was calculated
	sum     int
	windows map[string]*window
}

// in returns the window of a target in a slot. All windows of the fleet are in the latest slot after that.
func (f *fleet) in(target string, number int64) *window {
	if number > f.latest {
		f.latest, f.sum = number, 0
		for _, w := range f.windows {
			w.at(number)
			f.sum += w.loss()
		}
	}
	w := f.windows[target]
	if w == nil {
		w = &window{latest: f.latest}
		f.windows[target] = w
	}
	return w
}

// change changes a window of the fleet.
func (f *fleet) change(w *window, by func(index int)) {
	before := w.loss()
	by(w.at(f.latest))
	f.sum += w.loss() - before
}
