// SPDX-License-Identifier: Apache-2.0

package mode

import "time"

type lock struct {
	exists   bool
	holder   string        // empty if it is released or missing
	duration time.Duration // for which others wait
	guarded  bool          // it has the finalizer
	wayBack  bool          // it has the annotation
	version  string
}

type step int

const (
	stepWait     step = iota // nothing
	stepWork                 // the replicas work
	stepAcquire              // make the lock that of the installation, by compare-and-swap
	stepAnnounce             // write the annotation, by compare-and-swap
	stepRelease              // release the lock, by compare-and-swap
)

type decider struct {
	me       string        // the holder of the lock in Sharded mode
	duration time.Duration // how long a lock is unchanged, at least, before it is acquired from another holder
	omit     rules         // of tests
}

type rule string // rule has its reason in docs/design/runners.md.

const (
	ruleUnchanged rule = "mode-unchanged" // the lock of another holder is acquired when it is unchanged for its duration
	ruleMissing   rule = "mode-missing"   // a missing lock counts as unchanged, like any other
	ruleYears     rule = "mode-years"     // the lock of the installation does not expire
	ruleConfirm   rule = "mode-confirm"   // a replica reads the lock after it has claimed its own Lease
	ruleEnded     rule = "mode-ended"     // the lock is released when all replicas have ended
	ruleAnnounce  rule = "mode-announce"  // that is found out after the annotation was written
	ruleStop      rule = "mode-stop"      // replicas do not acquire a missing lock because they work, but stop
)

type rules map[rule]bool

// forReplicas is for Sharded mode, with how long the lock is unchanged, and whether replicas work.
func (d decider) forReplicas(l lock, unchanged time.Duration, isOn bool) step {
	isMine := l.holder == d.me
	switch {
	case isMine && !l.wayBack && l.guarded && (l.duration >= forever || d.omit[ruleYears]):
		return stepWork
	case isMine && !l.wayBack:
		return stepAcquire // An administrator has changed it.
	case l.exists && l.holder == "":
		return stepAcquire
	case isOn && !l.exists && d.omit[ruleStop]:
		return stepAcquire
	case isOn:
		return stepWait
	case !l.exists && d.omit[ruleMissing], l.holder != "" && !isMine && d.omit[ruleUnchanged]:
		return stepAcquire
	case isMine && unchanged >= d.duration: // The hub on the way back has ended.
		return stepAcquire
	case !isMine && unchanged >= max(d.duration, l.duration):
		return stepAcquire
	}
	return stepWait
}

// isShared: a replica may work after its claim, given the lock as read since.
func (d decider) isShared(l lock) bool { return d.omit[ruleConfirm] || l.holder == d.me && !l.wayBack }

// forWayBack is for a candidate in leader mode. isRunning must be found out after the lock was read.
func (d decider) forWayBack(l lock, isRunning bool) step {
	switch {
	case l.holder != d.me:
		return stepWait
	case isRunning && !d.omit[ruleEnded]:
		return stepWait
	case !l.wayBack && !d.omit[ruleAnnounce]:
		return stepAnnounce
	}
	return stepRelease
}
