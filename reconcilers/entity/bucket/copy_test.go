// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

func life(revision Revision, at time.Time) Birth { return Birth{Revision: revision, Time: at} }

func marker(revision Revision, at time.Time) Marker { return Marker{Birth: life(revision, at)} }

// The first list reports the markers of keys that were deleted before, once.
func TestReplace_ReportsMarkers(t *testing.T) {
	t.Parallel()
	list := newHeld()
	list.markers["a"] = marker(3, time.Now())
	list.markers["b"] = marker(1, time.Now())
	list.entries["b"] = Entry{Key: "b", Revision: 2, Created: time.Now()}
	h := newHeld()
	want := []Change{{Key: "b", Operation: Put, Revision: 2, Listed: true}, {Key: "a", Operation: Deleted, Revision: 3, Listed: true}}
	testkit.Equal(t, h.replace(list, false), want)
	again := newHeld()
	again.markers["a"], again.markers["b"] = list.markers["a"], list.markers["b"]
	again.entries["b"] = list.entries["b"]
	if got := h.replace(again, false); len(got) > 0 {
		t.Errorf("the second list reports %v", got)
	}
}

// A marker that the stream has dropped is known for a day.
func TestInherit_ForgetsMarkers(t *testing.T) {
	t.Parallel()
	h := newHeld()
	h.markers["new"], h.markers["old"] = marker(1, time.Now().Add(-time.Hour)), marker(2, time.Now().Add(-25*time.Hour))
	h.replace(newHeld(), false)
	if _, ok := h.markers["new"]; !ok || len(h.markers) != 1 {
		t.Errorf("got %v, want the new marker only", h.markers)
	}
}

// The markers of keys that come and go are bounded, also in one list; the last ones are known. An entity keeps the marker before its life.
// Promise: markers: the last 10 000 of each bucket are known; a key is created again also after its marker is forgotten.
func TestBucket_BoundsMarkers(t *testing.T) {
	t.Parallel()
	b, err := New(Options{Name: "things", JetStream: func() (jetstream.JetStream, error) { return nil, ErrNotFound }, Writer: "hub"})
	testkit.Must(t, err)
	const keys = 3 * maxMarkers
	list, now := newHeld(), time.Now()
	b.changed(record{key: "stays", op: Deleted, revision: 1, created: now})
	b.changed(record{key: "stays", revision: 2, created: now})
	list.apply(record{key: "stays", revision: 2, created: now})
	for i := range Revision(keys) {
		r := record{key: fmt.Sprint(i), op: Deleted, revision: 10 + i, created: now}
		b.changed(r)
		list.apply(r)
	}
	for range 2 {
		if n := len(b.held.markers); n > maxMarkers || n < maxMarkers/2 {
			t.Errorf("%d markers are known of %d", n, keys)
		}
		if _, ok := b.Marker(fmt.Sprint(keys - 1)); !ok {
			t.Error("the last marker is not known")
		}
		if e, _ := b.Get("stays"); e.Marker().Revision != 1 || e.Includes(life(1, now)) {
			t.Errorf("the entity has the marker %v", e.Marker())
		}
		b.held.replace(list, false)
	}
}

// The revisions decide whether a mark is that of an earlier entity, whatever the times are.
func TestIncludes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := Entry{Key: "a", Life: life(8, now.Add(-time.Minute)), marker: marker(7, now)}
	for l, want := range map[Birth]bool{
		e.Life:                       true,
		life(9, now.Add(time.Hour)):  true,
		life(9, now.Add(-time.Hour)): true, // The clock of the server was set back.
		life(6, now.Add(-time.Hour)): false,
		life(6, now.Add(time.Hour)):  false,
	} {
		testkit.Equal(t, e.Includes(l), want, e, "includes", l)
	}
}

// The clock of the server is set back by 30 s between a delete and the next put; five updates later the bucket is listed again. The
// entity has the life that it had before.
func TestInherit_ClockSetBack(t *testing.T) {
	t.Parallel()
	h, list := newHeld(), newHeld()
	at := time.Now()
	put := func(to *held, revision Revision, at time.Time) {
		to.apply(record{key: "a", revision: revision, created: at})
	}
	put(&h, 1, at)
	h.apply(record{key: "a", op: Deleted, revision: 2, created: at.Add(time.Second)})
	first := life(3, at.Add(-30*time.Second))
	put(&h, first.Revision, first.Time)
	for i := range Revision(History) {
		revision, at := first.Revision+1+i, first.Time.Add(time.Duration(i)*time.Second)
		put(&h, revision, at)
		put(&list, revision, at) // The stream has no others.
	}
	h.replace(list, false)
	if e := h.entries["a"]; !e.Includes(first) || e.Life != first || e.Marker().Revision != 2 {
		t.Errorf("the entity has another life than its objects: %+v, want %v", e, first)
	}
}
