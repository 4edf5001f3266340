// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"
)

const slots = 60

const slot = Window / slots

// slotOf counts from the first time, so that a change of the wall clock does not matter.
func (l *Ledger) slotOf(now time.Time) int64 {
	if l.began.IsZero() {
		l.began = now
	}
	return int64(now.Sub(l.began) / slot)
}

// window counts the last Window: a delete up to one slot longer, a create up to one slot less, so that the loss is
// never too low.
type window struct {
	latest           int64 // the number of the latest slot
	deleted, created [slots + 1]int
	owned            [slots + 1]int // the largest number of objects that the module has said it owns
	// gone has the slots of deletes by UID, and by nameKey of objects that may still be there.
	gone  map[string]int64
	swept int64 // the slot in which gone was last full and forgot what counts no longer
}

// maxGone UIDs and names are known. Deletes of other objects count each time.
const maxGone = 1000

func nameKey(name string) string { return "name " + name }

// isGone: a module may delete an object repeatedly while finalizers keep it.
func (w *window) isGone(key string) bool {
	at, ok := w.gone[key]
	return ok && w.latest-at <= slots
}

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

// at returns the index of a slot; one before the latest counts as the latest.
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

// owns returns the largest number of the Window, which is the one before the first delete, whether the module says it
// once or before each.
func (w *window) owns(objects int) int {
	i := w.latest % (slots + 1)
	w.owned[i] = max(w.owned[i], objects)
	return slices.Max(w.owned[:])
}

func (w *window) isEmpty() bool {
	return w.deleted == [slots + 1]int{} && w.created == [slots + 1]int{}
}

type fleet struct {
	latest  int64 // the slot for which sum was calculated
	sum     int
	windows map[string]*window
}

// in moves all windows of the fleet to the slot.
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

func (f *fleet) change(w *window, by func(index int)) {
	before := w.loss()
	by(w.at(f.latest))
	f.sum += w.loss() - before
}
