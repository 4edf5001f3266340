// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
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

	// maxFights exceeds the objects that fight at a time. One takes about 300 bytes, 4 KiB if all its fields flip.
	maxFights = 10_000
	// maxFields bounds the fields with counts of their own.
	maxFields = 16
)

type fight struct {
	flips map[string][]time.Time // by field
	pause time.Duration          // the present pause, or 0 without a fight
	until time.Time              // the end of the pause
}

// Flip notes that a field has flipped and is to be written again. It returns 0 if the caller may write now, which it then
// does, or how long the caller waits before it compares the field again. A wait means that the object is contended.
func (m *Memory) Flip(up types.NamespacedName, field string, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, _ := m.fights.Get(up)
	one, ok := known.(*fight)
	if !ok {
		one = &fight{flips: map[string][]time.Time{}}
	}
	m.fights.Add(up, one, LongestPause+Window) // Then it has ended.
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

// contend returns the rest of the pause, or allows one write and doubles the pause after it.
func (f *fight) contend(now time.Time) time.Duration {
	if wait := f.until.Sub(now); wait > 0 {
		return min(wait, f.pause) // A clock that was set back makes no pause longer.
	}
	f.pause = min(2*f.pause, LongestPause)
	f.until = now.Add(f.pause)
	return 0
}

func (f *fight) flip(field string, now time.Time) bool {
	if _, known := f.flips[field]; !known && len(f.flips) >= maxFields {
		for other, times := range f.flips {
			if now.Sub(times[len(times)-1]) >= Window {
				delete(f.flips, other)
			}
		}
		if len(f.flips) >= maxFields {
			field = "" // The count that all further fields share.
		}
	}
	var times []time.Time
	for _, at := range f.flips[field] {
		if now.Sub(at) < Window {
			times = append(times, at)
		}
	}
	f.flips[field] = append(times, now)
	return len(times) >= Flips
}
