// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"cmp"
	"sync"
	"time"
)

// The defaults of Options.
const (
	// Flips is more than a person or a rollout changes a field.
	Flips = 5
	// Window is the time in which the flips count.
	Window = time.Minute
	// FirstPause keeps a fight at one write per second at most.
	FirstPause = time.Second
	// LongestPause keeps a long fight at one write per minute.
	LongestPause = time.Minute
	// most bounds the memory: about 200 bytes per key.
	most = 10_000
)

// Options are the limits of a Detector. Zero fields have their defaults.
type Options struct {
	Flips  int
	Window time.Duration
}

// Detector detects fights. Its methods may be called from any goroutine.
type Detector[K comparable] struct {
	options Options

	mu  sync.Mutex // protects the map
	all map[K]*record
}

// record is the flips of the fields of one object.
type record struct {
	flips map[string][]time.Time
	last  time.Time     // the last flip of any field
	pause time.Duration // the last pause; 0 without a fight
	until time.Time     // the end of the pause
}

// New returns a Detector.
func New[K comparable](o Options) *Detector[K] {
	o.Flips, o.Window = cmp.Or(o.Flips, Flips), cmp.Or(o.Window, Window)
	return &Detector[K]{options: o, all: map[K]*record{}}
}

// Record records that a field is to be written again. It returns how long the caller shall wait before it does, or 0 to write
// now. After the wait the caller calls Record again, and writes once.
func (d *Detector[K]) Record(key K, field string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.of(key)
	switch wait := one.until.Sub(now); {
	case wait > 0:
		return wait
	case one.pause > 0 && now.Sub(one.until) < d.options.Window:
		// The pause has passed: the caller writes, and waits twice as long before the next write.
		one.pause = min(2*one.pause, LongestPause)
		one.until, one.last = now.Add(one.pause), now
		return 0
	}
	one.pause, one.last = 0, now
	recent := one.flips[field][:0]
	for _, at := range one.flips[field] {
		if now.Sub(at) < d.options.Window {
			recent = append(recent, at)
		}
	}
	one.flips[field] = append(recent, now)
	if len(recent) < d.options.Flips {
		return 0
	}
	delete(one.flips, field)
	one.pause, one.until = FirstPause, now.Add(FirstPause)
	return FirstPause
}

// of returns the record of a key. Beyond the bound it drops the record whose last flip is the oldest.
func (d *Detector[K]) of(key K) *record {
	if one := d.all[key]; one != nil {
		return one
	}
	if len(d.all) >= most {
		var oldest K
		var at time.Time
		for k, one := range d.all {
			if at.IsZero() || one.last.Before(at) {
				oldest, at = k, one.last
			}
		}
		delete(d.all, oldest)
	}
	one := &record{flips: map[string][]time.Time{}}
	d.all[key] = one
	return one
}

// Forget drops the flips of an object.
func (d *Detector[K]) Forget(key K) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, key)
}
