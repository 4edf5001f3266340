// SPDX-License-Identifier: Apache-2.0

package syncer

// presence is the state of an object.
type presence uint8

const (
	absent presence = iota
	present
	terminating // it has a deletionTimestamp
)

// facts are everything that decides about the next step for an object.
type facts struct {
	up, down   presence
	ownership  Ownership // of the downstream object, if there is one
	imported   bool      // the upstream object was made for the downstream object
	selected   bool      // the upstream object is selected
	finalizer  bool      // the upstream object has the finalizer of the pair
	upSyncer   bool      // the syncer makes upstream objects
	propagates bool      // deletions of copies are propagated
	lost       bool      // a watch has reported that somebody else deleted the copy
	byOthers   bool      // if the copy is being deleted, another client started the deletion while this process ran
}

// step is the next step for an object.
type step uint8

const (
	stepNone       step = iota
	stepSyncDown        // make the copy
	stepSync            // compare both
	stepSyncUp          // make the upstream object
	stepConflict        // report that the name belongs to somebody else
	stepWait            // wait until the copy has gone
	stepRenew           // mark the copy of an earlier object again, or delete it
	stepDeleteDown      // delete the copy
	stepDeleteUp        // delete the original
	stepRelease         // remove the finalizer from the original
)

// decide returns the next step. It is the only place that decides whether an object may be written.
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

// decideAbsent is for an upstream object that does not exist, or is not selected.
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

// decideTerminating is for an upstream object that is being deleted. Nothing is made for it.
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

// decideImported is for an upstream object that was made for a downstream object, to which the pair only adjusts it.
func decideImported(f facts) step {
	switch {
	case f.up == present && f.down == absent:
		return stepDeleteUp
	case f.up == present:
		return stepSync
	}
	return stepNone
}
