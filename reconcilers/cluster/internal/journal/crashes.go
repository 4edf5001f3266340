// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/state"
)

// records are the records of a journal, by the names of Clusters. There are entries only for apps that are being started,
// and for apps with which the hub has crashed.
type records map[string]entry

// entry is the record of one Cluster.
type entry struct {
	// Starting is the attempt to start the app; nil if the app is not being started.
	Starting *Attempt `json:"starting,omitempty"`
	// Crashes counts how often in a row the hub crashed while the app was being started. Crashed is
	// when the last crash was found, and Tried is the attempt that crashed.
	Crashes int       `json:"crashes,omitempty"`
	Crashed time.Time `json:"crashed,omitzero"`
	Tried   Attempt   `json:"tried,omitzero"`
}

// Attempt identifies the desired state that is being started. It holds digests, which are small and reveal
// nothing.
type Attempt struct {
	UID    types.UID `json:"uid,omitempty"`
	Spec   string    `json:"spec,omitempty"`   // the spec, and the annotation for a retry
	Secret string    `json:"secret,omitempty"` // the endpoint and the credentials
}

const (
	// quarantineAfter is the number of crashes in a row after which an app is quarantined.
	quarantineAfter = 3
	// quarantineBase is the duration of the first quarantine; it doubles with every further crash, up
	// to quarantineMax.
	quarantineBase = 10 * time.Minute
	quarantineMax  = 24 * time.Hour
	// forgetAfter is how long an obsolete entry is kept, such as the entry of a Cluster that was deleted by
	// force while no hub ran.
	forgetAfter = 2 * quarantineMax
)

// begin records that an app is being started.
func (l records) begin(name string, a Attempt) {
	e := l[name]
	e.Starting = &a
	l[name] = e
}

// end records that an app is no longer being started, and reports whether it was.
func (l records) end(name string) bool {
	e := l[name]
	if e.Starting == nil {
		return false
	}
	e.Starting = nil
	l.put(name, e)
	return true
}

// acquit removes the crashes of an app, and reports whether there were any.
func (l records) acquit(name string) bool {
	e := l[name]
	if e.Crashes == 0 {
		return false
	}
	l.put(name, entry{Starting: e.Starting})
	return true
}

func (e entry) isEmpty() bool { return e.Starting == nil && e.Crashes == 0 }

// put stores an entry unless it is empty.
func (l records) put(name string, e entry) {
	if e.isEmpty() {
		delete(l, name)
		return
	}
	l[name] = e
}

// inherit takes over the records of the last process of the hub, which crashed if it left apps that were being started.
// The starts of this process stay recorded.
func (l records) inherit(last records, now time.Time) {
	for name, e := range last {
		l.adopt(name, e, now)
	}
}

// dropStarts removes the starts, of a process that still runs: they are no crashes.
func (l records) dropStarts() {
	for name, e := range l {
		e.Starting = nil
		l.put(name, e)
	}
}

// adopt takes over the record that a process which has ended has left of a Cluster, unless a record with more crashes is known.
func (l records) adopt(name string, left entry, now time.Time) {
	own := l[name]
	switch {
	case left.Starting != nil:
		left.Crashes, left.Crashed, left.Tried = left.Crashes+1, now, *left.Starting
	case now.Sub(left.Crashed) > forgetAfter:
		return
	}
	if own.Crashes >= left.Crashes && own.Tried.UID == left.Tried.UID {
		return
	}
	left.Starting = own.Starting
	l.put(name, left)
}

// uid returns the UID of the Cluster of a record, or an empty one.
func (e entry) uid() types.UID {
	if e.Starting != nil && e.Starting.UID != "" {
		return e.Starting.UID
	}
	return e.Tried.UID
}

// suspicion returns the crashes of an app that would be started now, and the end of its quarantine.
func (e entry) suspicion(now Attempt) state.CrashRecord {
	if e.Crashes == 0 {
		return state.CrashRecord{}
	}
	return state.CrashRecord{Crashes: e.Crashes, Until: e.quarantinedUntil(now)}
}

// quarantinedUntil returns when an app may be started again, or the zero time if it may be started now. A changed spec and
// a requested retry start it immediately, since they are the operator's. A changed Secret does so the first time only: a
// user who can write Secrets must not be able to crash the hub repeatedly.
func (e entry) quarantinedUntil(now Attempt) time.Time {
	lasts := quarantine(e.Crashes)
	switch {
	case lasts == 0, now.Spec != e.Tried.Spec:
		return time.Time{}
	case now.Secret != e.Tried.Secret && e.Crashes == quarantineAfter:
		return time.Time{}
	case now.Secret != e.Tried.Secret:
		lasts = quarantineBase
	}
	return e.Crashed.Add(lasts)
}

// quarantine returns the duration of the quarantine after that many crashes.
func quarantine(crashes int) time.Duration {
	if crashes < quarantineAfter {
		return 0
	}
	return min(quarantineBase<<min(crashes-quarantineAfter, 16), quarantineMax)
}

// Digest returns a short text that differs for different parts.
func Digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		sum := sha256.Sum256([]byte(part))
		_, _ = h.Write(sum[:]) // It never fails.
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
