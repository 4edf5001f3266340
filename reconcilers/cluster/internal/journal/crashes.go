// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// records are by Cluster: apps that are being started, or were when a process ended without an orderly end.
type records map[string]entry

// entry names a start by its time in ns, so that an end that several replicas read counts once, and theirs add up.
type entry struct {
	UID      types.UID `json:"uid,omitempty"`      // UID is the UID of the Cluster.
	Starting int64     `json:"starting,omitempty"` // Starting is the start of the app; zero if the app is not being started.
	// Alone: no other app starts now, another has started before. If the process ends, this app has ended it.
	Alone bool `json:"alone,omitempty"`
	// Ends are the last starts in a row with which a process ended, the latest first.
	Ends [SuspectAfter]int64 `json:"ends,omitzero"`
	// Convicted is the start with which this app alone ended a process.
	Convicted int64 `json:"convicted,omitempty"`
}

const (
	// SuspectAfter is the number of ends in a row after which an app starts alone.
	SuspectAfter = 3
	forgetAfter  = time.Hour // forgetAfter is longer than the pauses of a container that ends again and again.
)

func (l records) begin(name string, uid types.UID, at time.Time, alone bool) {
	e := l[name]
	if e.UID != "" && e.UID != uid {
		e = entry{}
	}
	e.UID, e.Starting, e.Alone = uid, at.UnixNano(), alone
	l[name] = e
}

func (l records) end(name string) {
	e := l[name]
	e.Starting, e.Alone = 0, false
	l.put(name, e)
}

func (l records) acquit(name string) {
	e := l[name]
	e.Ends, e.Convicted = [SuspectAfter]int64{}, 0
	l.put(name, e)
}

func (e entry) isEmpty() bool { return e == entry{UID: e.UID} }

func (l records) put(name string, e entry) {
	if e.isEmpty() {
		delete(l, name)
		return
	}
	l[name] = e
}

func (l records) dropStarts() {
	for name := range l {
		l.end(name)
	}
}

// adopt adds what an ended process has left. What is known of another Cluster of that name may be newer.
func (l records) adopt(name string, left entry, now time.Time) {
	own := l[name]
	switch {
	case own.UID == left.UID:
	case own.Starting != 0, own.Ends[0] > max(left.Starting, left.Ends[0]):
		return
	default:
		own = entry{UID: left.UID}
	}
	if left.Alone {
		left.Convicted = left.Starting
	}
	oldest := now.Add(-forgetAfter).UnixNano()
	if left.Convicted > oldest {
		own.Convicted = max(own.Convicted, left.Convicted)
	}
	ends := slices.Concat(own.Ends[:], left.Ends[:], []int64{left.Starting})
	slices.SortFunc(ends, func(a, b int64) int { return cmp.Compare(b, a) })
	own.Ends = [SuspectAfter]int64{}
	copy(own.Ends[:], slices.DeleteFunc(slices.Compact(ends), func(end int64) bool { return end <= oldest }))
	l.put(name, own)
}

// Suspicion is what is known of the ends of processes while an app was being started.
type Suspicion struct {
	// Ends is how many processes ended in a row, SuspectAfter at most. Any app that was being started may be at fault, or none.
	Ends      int
	Convicted time.Time // Convicted is the last start with which this app alone ended a process; zero if it has not.
}

func (e entry) suspicion() (s Suspicion) {
	for _, end := range e.Ends {
		if end != 0 {
			s.Ends++
		}
	}
	if e.Convicted != 0 {
		s.Convicted = time.Unix(0, e.Convicted).UTC()
	}
	return s
}
