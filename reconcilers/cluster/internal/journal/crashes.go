// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// entry names a start by its time in ns, so that an end that several replicas read counts once, and theirs add up.
type entry struct {
	Term     int64  `json:"term,omitempty"`     // Term of the shard; zero for a hub alone, and for an app that is only built.
	By       string `json:"by,omitempty"`       // By is the replica that has written it; empty for a hub alone.
	Starting int64  `json:"starting,omitempty"` // Starting is the start of the app; zero if the app is not being started.
	// Alone: no other app starts now, another has started before. If the process ends, this app has ended it.
	Alone bool `json:"alone,omitempty"`
	// Ends are the last starts in a row with which a process ended, the latest first.
	Ends [SuspectAfter]int64 `json:"ends,omitzero"`
	// Convicted is the start with which this app alone ended a process.
	Convicted int64 `json:"convicted,omitempty"`

	gone bool // The Cluster is gone.
}

const (
	// SuspectAfter is the number of ends in a row after which an app starts alone.
	SuspectAfter = 3
	forgetAfter  = time.Hour // forgetAfter is longer than the pauses of a container that ends repeatedly.
)

// decode returns an empty entry for a damaged one, which must not keep a hub from starting.
func decode(text string) (e entry) {
	if json.Unmarshal([]byte(text), &e) != nil {
		return entry{}
	}
	return e
}

func (e *entry) end() { e.Starting, e.Alone = 0, false }

func (e *entry) acquit() { e.Ends, e.Convicted = [SuspectAfter]int64{}, 0 }

func (e *entry) isEmpty() bool {
	return e.Starting == 0 && e.Ends == [SuspectAfter]int64{} && e.Convicted == 0
}

// adopt adds what another process has left. Its start is an end if the process has ended.
func (e *entry) adopt(left entry, hasEnded bool, now time.Time) {
	if !hasEnded {
		left.end()
	}
	if left.Alone {
		left.Convicted = left.Starting
	}
	oldest := now.Add(-forgetAfter).UnixNano()
	if left.Convicted > oldest {
		e.Convicted = max(e.Convicted, left.Convicted)
	}
	ends := slices.Concat(e.Ends[:], left.Ends[:], []int64{left.Starting})
	slices.SortFunc(ends, func(a, b int64) int { return cmp.Compare(b, a) })
	e.Ends = [SuspectAfter]int64{}
	copy(e.Ends[:], slices.DeleteFunc(slices.Compact(ends), func(end int64) bool { return end <= oldest }))
}

// Suspicion is what is known of the ends of processes while an app was being started.
type Suspicion struct {
	// Ends is how many processes ended in a row, SuspectAfter at most. Any app that was being started may be at fault, or none.
	Ends      int
	Convicted time.Time // Convicted is the last start with which this app alone ended a process; zero if it has not.
}

func (e *entry) suspicion() (s Suspicion) {
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
