// SPDX-License-Identifier: Apache-2.0

package syncer

type presence uint8

const (
	absent presence = iota
	present
	terminating // it has a deletionTimestamp
)

type facts struct {
	up, down   presence
	ownership  Ownership // of the downstream object
	imported   bool      // upstream was made for downstream
	selected   bool      // the upstream object is selected
	finalizer  bool      // upstream has the pair's finalizer
	upSyncer   bool      // the syncer makes upstream objects
	propagates bool      // deletions of copies are propagated
	lost       bool      // a watch reported that another client deleted the copy
	byOthers   bool      // another client began the deletion while this process ran
}

type step uint8

const (
	stepNone step = iota
	stepSyncDown
	stepSync
	stepSyncUp
	stepConflict   // report the conflict
	stepWait       // until the copy has gone
	stepRenew      // mark the copy of an earlier object again, or delete it
	stepDeleteDown // delete the copy
	stepDeleteUp
	stepRelease // remove the finalizer
)

// decide is the only place that decides whether an object may be written.
func decide(f facts) step {
	if f.imported {
		return decideImported(f)
	}
	ours := f.down != absent && (f.ownership == Ours || f.ownership == Stale)
	switch {
	case f.up == absent, !f.selected && f.up == present:
		return decideAbsent(f, ours)
	case f.up == terminating:
		return decideTerminating(f, ours)
	case f.down != absent && !ours:
		return stepConflict
	case f.down == terminating && f.propagates && f.ownership == Ours && f.byOthers:
		return stepDeleteUp
	case f.down == terminating:
		return stepWait
	case f.down == present && f.ownership == Stale:
		return stepRenew
	case f.down == present:
		return stepSync
	case f.lost && f.propagates:
		return stepDeleteUp
	}
	return stepSyncDown
}

func decideAbsent(f facts, ours bool) step {
	switch {
	case ours && f.down == present:
		return stepDeleteDown
	case ours:
		return stepWait
	case f.up == present && f.finalizer:
		return stepRelease
	case f.up == absent && f.down == present && f.upSyncer:
		return stepSyncUp
	}
	return stepNone
}

func decideTerminating(f facts, ours bool) step {
	switch {
	case ours && f.down == present:
		return stepDeleteDown
	case ours:
		return stepWait
	case f.finalizer:
		return stepRelease
	}
	return stepNone
}

// decideImported: the pair only adjusts an upstream object to its downstream object.
func decideImported(f facts) step {
	switch {
	case f.up == present && f.down == absent:
		return stepDeleteUp
	case f.up == present:
		return stepSync
	}
	return stepNone
}
