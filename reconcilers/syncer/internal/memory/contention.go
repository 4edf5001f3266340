// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"container/list"
	"hash/maphash"
	"sync"
	"time"
)

// The defaults of DetectorOptions.
const (
	// Flips is more than a person or a rollout flips a field in a minute, and few enough that a fight costs little.
	Flips = 5
	// Window is longer than the usual period of a controller that repairs drift.
	Window = time.Minute
	// FirstPause: a new fight has one write per second.
	FirstPause = time.Second
	// LongestPause: a long fight has one write per minute, which also bounds the wait after the other has given way.
	LongestPause = time.Minute
	// Keys exceeds the objects that fight at a time. A key takes about 300 bytes, 4 KiB if all its fields flip.
	Keys = 10_000
)

// maxFields bounds the fields with counts of their own.
const maxFields = 16

// DetectorOptions are limits. Zero fields have their defaults.
type DetectorOptions struct {
	Flips        int           // Flips of a field within Window are no fight
	Window       time.Duration // Window also is the time without flips that ends a fight
	LongestPause time.Duration // at least FirstPause
	Keys         int           // how many objects a Detector remembers
}

// Detector detects fights. Its methods may be called from any goroutine.
type Detector[K comparable] struct {
	options DetectorOptions
	seed    maphash.Seed

	mu     sync.Mutex
	all    map[K]*list.Element
	recent *list.List // of *record[K], the most recent first
}

type record[K comparable] struct {
	key   K
	flips map[uint64][]time.Time // by the hash of the field
	pause time.Duration          // the present pause, or 0 without a fight
	until time.Time              // the end of the pause
}

// NewDetector returns a Detector.
func NewDetector[K comparable](o DetectorOptions) *Detector[K] {
	o.Flips, o.Window, o.Keys = cmp.Or(o.Flips, Flips), cmp.Or(o.Window, Window), cmp.Or(o.Keys, Keys)
	o.LongestPause = max(cmp.Or(o.LongestPause, LongestPause), FirstPause)
	return &Detector[K]{options: o, seed: maphash.MakeSeed(), all: map[K]*list.Element{}, recent: list.New()}
}

// Record records that a field has flipped and is to be written again. It returns 0 if the caller may write now, which it then
// does, or how long the caller waits before it compares the field again. A wait means that the object is contended.
func (d *Detector[K]) Record(key K, field string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.of(key)
	if one.pause > 0 && now.Sub(one.until) < d.options.Window {
		return one.contend(now, d.options.LongestPause)
	}
	one.pause = 0
	if !one.flip(maphash.String(d.seed, field), now, d.options) {
		return 0
	}
	clear(one.flips)
	one.pause, one.until = FirstPause, now.Add(FirstPause)
	return one.pause
}

// contend returns the rest of the pause, or allows one write and doubles the pause after it.
func (r *record[K]) contend(now time.Time, longest time.Duration) time.Duration {
	if wait := r.until.Sub(now); wait > 0 {
		return min(wait, r.pause) // A clock that was set back makes no pause longer.
	}
	r.pause = min(2*r.pause, longest)
	r.until = now.Add(r.pause)
	return 0
}

func (r *record[K]) flip(field uint64, now time.Time, o DetectorOptions) bool {
	if _, known := r.flips[field]; !known && len(r.flips) >= maxFields {
		r.expire(now, o.Window)
		if len(r.flips) >= maxFields {
			field = 0 // The count that all further fields share.
		}
	}
	var times []time.Time
	for _, at := range r.flips[field] {
		if now.Sub(at) < o.Window {
			times = append(times, at)
		}
	}
	r.flips[field] = append(times, now)
	return len(times) >= o.Flips
}

func (r *record[K]) expire(now time.Time, window time.Duration) {
	for field, times := range r.flips {
		if now.Sub(times[len(times)-1]) >= window {
			delete(r.flips, field)
		}
	}
}

// of makes the record the most recent. Beyond the bound it drops the least recent.
func (d *Detector[K]) of(key K) *record[K] {
	if element, ok := d.all[key]; ok {
		d.recent.MoveToFront(element)
		return recordOf[K](element)
	}
	if d.recent.Len() >= d.options.Keys {
		delete(d.all, recordOf[K](d.recent.Back()).key)
		d.recent.Remove(d.recent.Back())
	}
	one := &record[K]{key: key, flips: map[uint64][]time.Time{}}
	d.all[key] = d.recent.PushFront(one)
	return one
}

func recordOf[K comparable](element *list.Element) *record[K] {
	return element.Value.(*record[K]) //nolint:forcetypeassert // The list has records only.
}

// Forget drops the flips and the fight of an object.
func (d *Detector[K]) Forget(key K) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if element, ok := d.all[key]; ok {
		delete(d.all, key)
		d.recent.Remove(element)
	}
}

// Len returns how many objects the Detector remembers.
func (d *Detector[K]) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}
