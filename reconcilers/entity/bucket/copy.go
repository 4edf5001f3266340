// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bytes"
	"cmp"
	"maps"
	"regexp"
	"slices"
	"time"
)

type held struct {
	entries map[string]Entry
	// markers stay known for keepsMarkers after the stream dropped them, within maxMarkers.
	markers map[string]Marker
	// invalid keys have a value, and package jetstream refuses them. They are not followed.
	invalid map[string]bool
}

func newHeld() held {
	return held{entries: map[string]Entry{}, markers: map[string]Marker{}, invalid: map[string]bool{}}
}

var validKey = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)

// markField ends the name of a field with the mark of a secondary.
const markField = `/owner":`

type record struct {
	key      string
	op       Operation
	value    []byte
	revision Revision
	created  time.Time
}

func (h *held) apply(r record) bool {
	if !validKey.MatchString(r.key) {
		h.invalid[r.key] = true
		if r.op != Put {
			delete(h.invalid, r.key)
		}
		return false
	}
	if known, ok := h.entries[r.key]; ok && known.Revision >= r.revision {
		return false
	}
	if known, ok := h.markers[r.key]; ok && known.Revision >= r.revision {
		return false
	}
	at := Birth{Revision: r.revision, Time: r.created}
	if r.op != Put {
		delete(h.entries, r.key)
		h.markers[r.key] = Marker{at, r.op == Purged}
		return true
	}
	e := Entry{Key: r.key, Value: r.value, Revision: r.revision, Created: r.created, Life: at, marker: h.markers[r.key]}
	known, ok := h.entries[r.key]
	if ok {
		e.Life = known.Life
	}
	if e.Marked = known.Marked; bytes.Contains(r.value, []byte(markField)) {
		e.Marked = r.value
	}
	h.entries[r.key] = e
	return true
}

// replace takes over a list, and returns the differences in the order of revisions. Of the bucket of before, known
// lives and markers stay, since the stream may have compacted them.
func (h *held) replace(list held, another bool) []Change {
	if !another {
		list.inherit(*h)
	}
	list.forget()
	var all []Change
	for key, e := range list.entries {
		if known, ok := h.entries[key]; !ok || known.Revision != e.Revision || !known.Created.Equal(e.Created) {
			all = append(all, Change{Key: key, Operation: Put, Revision: e.Revision, Listed: true})
		}
	}
	for key := range h.entries {
		if _, ok := list.entries[key]; !ok {
			all = append(all, list.lacks(key))
		}
	}
	for key, m := range list.markers { // Deleted while the process did not follow.
		_, isEntry := list.entries[key]
		_, wasEntry := h.entries[key]
		if !isEntry && !wasEntry && h.markers[key] != m {
			all = append(all, list.lacks(key))
		}
	}
	*h = list
	slices.SortFunc(all, func(a, b Change) int { return cmp.Compare(a.Revision, b.Revision) })
	return all
}

// keepsMarkers bounds the memory for a bucket whose keys come and go. Later a complete list proves the deletion.
const keepsMarkers = 24 * time.Hour

// maxMarkers bounds markers, whether the stream has them or not.
const maxMarkers = 10_000

// forget drops the oldest quarter, so that this is rare.
func (h *held) forget() {
	if len(h.markers) <= maxMarkers {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(h.markers), func(a, b string) int {
		return cmp.Compare(h.markers[a].Revision, h.markers[b].Revision)
	})
	for _, key := range oldest[:len(oldest)-maxMarkers*3/4] {
		delete(h.markers, key)
	}
}

func (h *held) inherit(before held) {
	for key, m := range before.markers {
		if m.Revision > h.markers[key].Revision && time.Since(m.Time) < keepsMarkers {
			h.markers[key] = m
		}
	}
	for key, e := range h.entries {
		known, ok := before.entries[key]
		m := h.markers[key]
		if known.marker.Revision > m.Revision {
			m = known.marker
		}
		if m.Revision < e.Revision {
			e.marker = m
		}
		if e.Marked == nil && e.Life.Revision <= known.Revision { // The stream has what was known, so it is one life.
			e.Marked = known.Marked
		}
		if ok && e.Includes(known.Life) {
			e.Life = known.Life
		}
		h.entries[key] = e
	}
}

func (h *held) lacks(key string) Change {
	if m, ok := h.markers[key]; ok {
		return Change{Key: key, Operation: Deleted, Revision: m.Revision, Listed: true}
	}
	return Change{Key: key, Operation: Missing, Listed: true}
}
