// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/state"
)

// records is what a journal knows, by the names of Clusters. It has entries of those only whose app
// is being started, or that the hub has crashed with.
type records map[string]entry

// entry is what is on record of one Cluster.
type entry struct {
	// Starting is what is being started; nil if nothing is.
	Starting *Attempt `json:"starting,omitempty"`
	// Crashes counts how often in a row the hub crashed while the app was being started. Crashed is
	// when that was last found out, and Tried is what was being started then.
	Crashes int       `json:"crashes,omitempty"`
	Crashed time.Time `json:"crashed,omitzero"`
	Tried   Attempt   `json:"tried,omitzero"`
}

// Attempt tells what was tried from what may be tried instead. It holds digests, so that neither the
// size of what they stand for matters nor who reads them.
type Attempt struct {
	UID    types.UID `json:"uid,omitempty"`
	Spec   string    `json:"spec,omitempty"`   // the spec, and the wish for another try
	Secret string    `json:"secret,omitempty"` // what was made of the Secret
}

const (
	// quarantineAfter is the number of crashes in a row after which an app is left alone.
	quarantineAfter = 3
	// quarantineBase is for how long it is at first; the time doubles with every further crash, up
	// to quarantineMax.
	quarantineBase = 10 * time.Minute
	quarantineMax  = 24 * time.Hour
	// forgetAfter is how long an entry lasts that nobody has reason to look at any more, such as that
	// of a Cluster which was deleted by force while no hub ran.
	forgetAfter = 2 * quarantineMax
)

// begin notes that an app is being started.
func (l records) begin(name string, a Attempt) {
	e := l[name]
	e.Starting = &a
	l[name] = e
}

// end notes that it is not being started any more, and reports whether it was.
func (l records) end(name string) bool {
	e := l[name]
	if e.Starting == nil {
		return false
	}
	e.Starting = nil
	l.put(name, e)
	return true
}

// acquit forgets the crashes of an app, and reports whether there were any.
func (l records) acquit(name string) bool {
	e := l[name]
	if e.Crashes == 0 {
		return false
	}
	l.put(name, entry{Starting: e.Starting})
	return true
}

// put keeps an entry if it says something.
func (l records) put(name string, e entry) {
	if e.Starting == nil && e.Crashes == 0 {
		delete(l, name)
		return
	}
	l[name] = e
}

// inherit takes over what the last process of the hub has left: it crashed if it left anything that
// was being started. What this process is starting already stays as it is.
func (l records) inherit(last records, now time.Time) {
	for name, e := range last {
		switch {
		case e.Starting != nil:
			e.Crashes, e.Crashed, e.Tried = e.Crashes+1, now, *e.Starting
		case now.Sub(e.Crashed) > forgetAfter:
			continue
		}
		e.Starting = l[name].Starting
		l.put(name, e)
	}
}

// suspicion returns what the registry must know of an app that would be started now.
func (e entry) suspicion(now Attempt) state.CrashRecord {
	if e.Crashes == 0 {
		return state.CrashRecord{}
	}
	return state.CrashRecord{Crashes: e.Crashes, Until: e.quarantinedUntil(now)}
}

// quarantinedUntil returns when an app may be started again, or the zero time if it may be. Another
// spec, or the wish for another try, is tried at once, since they are the operator's. Another Secret
// is so the first time only: who may write Secrets shall not make the hub crash again and again.
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

// quarantine returns for how long an app is left alone after that many crashes.
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
