// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"slices"
	"time"
)

// held is the copy of a bucket.
type held struct {
	entries map[string]Entry
	markers map[string]Life // the last marker of each key, as long as the stream has it and the process knows it
}

func newHeld() held { return held{entries: map[string]Entry{}, markers: map[string]Life{}} }

// record is a message of the stream.
type record struct {
	key      string
	op       Operation
	value    []byte
	revision Revision
	created  time.Time
}

// apply applies a message, and reports whether it has changed something.
func (h *held) apply(r record) bool {
	if known, ok := h.entries[r.key]; ok && known.Revision >= r.revision {
		return false
	}
	if known, ok := h.markers[r.key]; ok && known.Revision >= r.revision {
		return false
	}
	at := Life{Revision: r.revision, Time: r.created}
	if r.op != Put {
		delete(h.entries, r.key)
		h.markers[r.key] = at
		return true
	}
	e := Entry{Key: r.key, Value: r.value, Revision: r.revision, Created: r.created, Life: at, marker: h.markers[r.key]}
	if known, ok := h.entries[r.key]; ok {
		e.Life = known.Life
	}
	h.entries[r.key] = e
	return true
}

// replace takes over a new list, and returns the differences, in the order of the revisions. Markers that the list lacks because
// they have been compacted stay, unless the bucket is another one.
func (h *held) replace(list held, another bool) []Change {
	var all []Change
	for key, e := range list.entries {
		known, ok := h.entries[key]
		if ok && !another && known.Revision == e.Revision && known.Created.Equal(e.Created) {
			list.entries[key] = known
			continue
		}
		if !another {
			if m := h.markers[key]; m.Revision > e.marker.Revision {
				e.marker = m
			}
			if ok && e.Includes(known.Life) {
				e.Life = known.Life
			}
			list.entries[key] = e
		}
		all = append(all, Change{Key: key, Operation: Put, Revision: e.Revision, Listed: true})
	}
	for key := range h.entries {
		if _, ok := list.entries[key]; ok {
			continue
		}
		c := Change{Key: key, Operation: Missing, Listed: true}
		if m, ok := list.markers[key]; ok {
			c.Operation, c.Revision = Deleted, m.Revision
		}
		all = append(all, c)
	}
	if !another {
		for key, m := range h.markers {
			if _, ok := list.markers[key]; !ok {
				list.markers[key] = m
			}
		}
	}
	*h = list
	slices.SortFunc(all, func(a, b Change) int { return int(a.Revision) - int(b.Revision) })
	return all
}
