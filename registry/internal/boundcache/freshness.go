// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"cmp"
	"time"
)

// freshness says whether an informer follows its remote. It reads no clock and does no I/O. The zero value is that of
// an informer that has not asked for anything yet.
//
// An informer follows its remote while a watch is open. A list alone does not count: an API server that answers lists
// and refuses watches leaves the informer with objects as old as the last list. A watch counts when it has stayed open
// for watchProof, or has moved the informer's version on. Without that, an API server that accepts each watch and ends
// it with an error event at once would look well.
type freshness struct {
	since   time.Time // when the informer last followed, or first failed; zero before that
	lists   string    // why the last list failed; empty if it did not, or a watch has counted since
	watches string    // why the last watch failed; empty for none since one counted
	opened  time.Time // when the open watch began; zero for none
	version string    // of the informer at that time
	mute    bool      // the open watch brought nothing for transport.MaxSilence
	silent  bool      // the cause is silence: only a watch that brings something counts
	heard   bool      // the open watch brought something
}

// watchProof is how long a watch has to stay open to count.
const watchProof = 5 * time.Second

// Causes that no error gives.
const (
	causeEnded  = "The API server ends every watch at once; look at its log, and at proxies in between."
	causeSilent = "The API server accepts watches and sends nothing, not even bookmarks; look at its log, and at proxies in between."
)

// listed notes the outcome of a list: why it failed, or an empty cause.
func (f *freshness) listed(cause string, now time.Time) {
	f.lists = cause
	if cause != "" {
		f.since = orTime(f.since, now)
	}
}

// refused notes why a watch failed.
func (f *freshness) refused(cause string, now time.Time) {
	f.watches, f.since = cause, orTime(f.since, now)
}

// watching notes that a watch was accepted.
func (f *freshness) watching(version string, now time.Time) {
	f.opened, f.version, f.mute, f.heard = now, version, false, false
}

// fellSilent notes that the open watch ends because it brought nothing for transport.MaxSilence.
func (f *freshness) fellSilent(now time.Time) {
	if f.follows(now) {
		f.since, f.lists = now, "" // Until now the informer counted as one that follows.
	}
	f.mute, f.silent, f.watches = true, true, causeSilent
}

// ended notes that the open watch has ended, whatever the reason.
func (f *freshness) ended(version string, now time.Time) {
	switch {
	case f.opened.IsZero():
		return
	case f.mute:
	case f.follows(now) || version != f.version:
		f.since, f.lists, f.watches, f.silent = now, "", "", false
	default:
		f.refused(cmp.Or(f.watches, causeEnded), f.opened)
	}
	f.opened = time.Time{}
}

// follows reports whether the informer has a watch that counts.
func (f *freshness) follows(now time.Time) bool {
	switch {
	case f.opened.IsZero(), f.mute:
		return false
	case f.silent:
		return f.heard
	}
	return now.Sub(f.opened) >= watchProof
}

// blocked returns since when the informer cannot follow, and why; the zero time while nothing is known to be in its
// way.
func (f *freshness) blocked(now time.Time) (since time.Time, cause string) {
	cause = cmp.Or(f.lists, f.watches)
	if cause == "" || f.follows(now) {
		return time.Time{}, ""
	}
	return f.since, cause
}

// next returns when blocked may change, or what follows from it, though nothing happens; zero for never.
func (f *freshness) next(now time.Time, l Limits) time.Time {
	since, _ := f.blocked(now)
	if since.IsZero() {
		return time.Time{}
	}
	times := []time.Time{since.Add(l.StaleAfter), since.Add(l.StaleAfter + l.StaleTolerance)}
	if !f.opened.IsZero() && !f.silent && !f.mute {
		times = append(times, f.opened.Add(watchProof))
	}
	return soonest(now, times...)
}

// soonest returns the first of some times that is still to come; zero for none.
func soonest(now time.Time, times ...time.Time) time.Time {
	var first time.Time
	for _, at := range times {
		if at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

func orTime(t, otherwise time.Time) time.Time {
	if t.IsZero() {
		return otherwise
	}
	return t
}
