// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"time"

	"github.com/clusterfx/clusterfx/registry/state"
)

// freshness says whether an informer follows its remote, without a clock or I/O. An informer follows while a watch is
// open; a list is not enough, since an API server may serve lists and refuse watches. A watch counts after watchProof,
// or when the resource version has changed: one that accepts each watch and ends it at once with an error event must
// not look healthy.
type freshness struct {
	since         time.Time // when the informer last followed, or first failed; zero before that
	lists         cause     // why the last list failed; zero if it succeeded, or a watch has counted since
	watches       cause     // why the last watch failed; zero if none has failed since a watch counted
	opened        time.Time // when the open watch began; zero for none
	version       string    // of the informer at that time
	silent        bool      // the open watch has sent nothing for transport.MaxSilence
	lostToSilence bool      // the cause is silence: only a watch that sends something counts
	received      bool      // the open watch has sent something
}

type cause struct {
	text    string        // a fixed text in sentences
	problem state.Problem // for advice that is not in text
}

// watchProof is the time after which an open watch counts.
const watchProof = 5 * time.Second

// Causes without an error.
const (
	causeEnded  = "The API server ends every watch at once; check its log, and proxies in between."
	causeSilent = "The API server accepts watches and sends nothing, not even bookmarks; check its log, and proxies in between."
)

func (f *freshness) listed(why cause, now time.Time) {
	f.lists = why
	if why != (cause{}) {
		f.since = cmp.Or(f.since, now)
	}
}

func (f *freshness) refused(why cause, now time.Time) {
	f.watches, f.since = why, cmp.Or(f.since, now)
}

func (f *freshness) watching(version string, now time.Time) {
	f.opened, f.version, f.silent, f.received = now, version, false, false
}

// fellSilent: the watch has sent nothing for transport.MaxSilence.
func (f *freshness) fellSilent(now time.Time) {
	if f.follows(now) {
		f.since, f.lists = now, cause{} // Until now the informer followed.
	}
	f.silent, f.lostToSilence, f.watches = true, true, cause{text: causeSilent}
}

func (f *freshness) ended(version string, now time.Time) {
	switch {
	case f.opened.IsZero():
		return
	case f.silent:
	case f.follows(now) || version != f.version:
		f.since, f.lists, f.watches, f.lostToSilence = now, cause{}, cause{}, false
	default:
		f.refused(cmp.Or(f.watches, cause{text: causeEnded}), f.opened)
	}
	f.opened = time.Time{}
}

// follows needs a watch that counts.
func (f *freshness) follows(now time.Time) bool {
	switch {
	case f.opened.IsZero(), f.silent:
		return false
	case f.lostToSilence:
		return f.received
	}
	return now.Sub(f.opened) >= watchProof
}

// blocked returns the zero time if the informer can follow, as far as is known.
func (f *freshness) blocked(now time.Time) (since time.Time, why cause) {
	why = cmp.Or(f.lists, f.watches)
	if why == (cause{}) || f.follows(now) {
		return time.Time{}, cause{}
	}
	return f.since, why
}

// next is when the result of blocked may change by the passing of time; zero for never.
func (f *freshness) next(now time.Time, l Limits) time.Time {
	since, _ := f.blocked(now)
	if since.IsZero() {
		return time.Time{}
	}
	times := []time.Time{since.Add(l.StaleAfter), since.Add(l.StaleAfter + l.StaleTolerance)}
	if !f.opened.IsZero() && !f.lostToSilence && !f.silent {
		times = append(times, f.opened.Add(watchProof))
	}
	return soonest(now, times...)
}

func soonest(now time.Time, times ...time.Time) time.Time {
	var first time.Time
	for _, at := range times {
		if at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
