// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"sync"
	"time"
)

const (
	// Flips is more than a person or a rollout flips a field in a minute, and few enough that a fight costs little.
	Flips = 5
	// Window is longer than the usual period of a controller that repairs drift, and the time without flips that ends a fight.
	Window = time.Minute
	// FirstPause is that of a new fight: one write per second.
	FirstPause = time.Second
	// LongestPause is that of a long fight: one write per minute. It also bounds the wait after the other has given way.
	LongestPause = time.Minute
	// MaxKeys exceeds the objects that fight at a time. A key takes about 300 bytes, 4 KiB if all its fields flip. Beyond it all are
	// forgotten.
	MaxKeys = 10_000
)

// maxFields bounds the fields with counts of their own.
const maxFields = 16

// Detector detects fights. Its methods may be called from any goroutine. The zero value is ready.
type Detector[K comparable] struct {
	mu  sync.Mutex // protects the field
	all map[K]*record
}

type record struct {
	flips map[string][]time.Time // by field
	pause time.Duration          // the present pause, or 0 without a fight
	until time.Time              // the end of the pause
}

// Record records that a field has flipped and is to be written again. It returns 0 if the caller may write now, which it then
// does, or how long the caller waits before it compares the field again. A wait means that the object is contended.
func (d *Detector[K]) Record(key K, field string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.of(key)
	if one.pause > 0 && now.Sub(one.until) < Window {
		return one.contend(now)
	}
	one.pause = 0
	if !one.flip(field, now) {
		return 0
	}
	clear(one.flips)
	one.pause, one.until = FirstPause, now.Add(FirstPause)
	return one.pause
}

func (d *Detector[K]) of(key K) *record {
	one := d.all[key]
	if one == nil {
		if d.all == nil || len(d.all) >= MaxKeys {
			d.all = map[K]*record{}
		}
		one = &record{flips: map[string][]time.Time{}}
		d.all[key] = one
	}
	return one
}

// contend returns the rest of the pause, or allows one write and doubles the pause after it.
func (r *record) contend(now time.Time) time.Duration {
	if wait := r.until.Sub(now); wait > 0 {
		return min(wait, r.pause) // A clock that was set back makes no pause longer.
	}
	r.pause = min(2*r.pause, LongestPause)
	r.until = now.Add(r.pause)
	return 0
}

func (r *record) flip(field string, now time.Time) bool {
	if _, known := r.flips[field]; !known && len(r.flips) >= maxFields {
		for other, times := range r.flips {
			if now.Sub(times[len(times)-1]) >= Window {
				delete(r.flips, other)
			}
		}
		if len(r.flips) >= maxFields {
			field = "" // The count that all further fields share.
		}
	}
	var times []time.Time
	for _, at := range r.flips[field] {
		if now.Sub(at) < Window {
			times = append(times, at)
		}
	}
	r.flips[field] = append(times, now)
	return len(times) >= Flips
}

// Forget drops the flips and the fight of an object.
func (d *Detector[K]) Forget(key K) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, key)
}

// Len returns how many objects the Detector remembers.
func (d *Detector[K]) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}
