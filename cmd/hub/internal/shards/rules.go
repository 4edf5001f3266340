// SPDX-License-Identifier: Apache-2.0

package shards

type rule string // rule has its reason in docs/design/replicas.md.

// A Machine keeps all of them; only tests leave one out.
const (
	ruleEpochGrows      rule = "epoch-grows"      // each change of the holder increments the epoch
	ruleGateClock       rule = "gate-clock"       // the gate compares the age of the last renewal with the deadline
	ruleMargin          rule = "margin"           // the deadline is shorter than the duration
	ruleLongerClock     rule = "longer-clock"     // the age of a renewal is the longer one of two clocks
	ruleWait            rule = "wait"             // a Lease is overwritten after it was unchanged for the duration
	ruleOwnClock        rule = "own-clock"        // the observer measures that by its own clock
	ruleOverwrite       rule = "overwrite"        // a shard is taken after the Lease of its holder has been overwritten
	ruleSameLease       rule = "same-lease"       // a Lease that was removed and created again is another one
	ruleMissing         rule = "missing"          // a missing Lease counts as unchanged, like any other
	ruleEndedSays       rule = "ended-says"       // a shard is taken if the Lease says that its holder has ended, or the holder is absent for the duration
	ruleLiveRead        rule = "live-read"        // the Lease of the holder is read from the API server before the take
	ruleDrain           rule = "drain"            // a shard is released when no write is in flight
	ruleStaysReleased   rule = "stays-released"   // an epoch that was released is never held again
	ruleHoldIsRecord    rule = "hold-is-record"   // the record is the lock, the assignment is a wish
	ruleRecordsRemain   rule = "records-remain"   // a missing record is created again by its holder, or after the end of the holder that it had at last
	ruleProgress        rule = "progress"         // a replica without progress does not renew
	ruleObserverContact rule = "observer-contact" // a replica observes only while it renews its own Lease
	rulePromise         rule = "promise"          // a holder promises a shard to a warm replica before it drains it
	ruleWarm            rule = "warm"             // a live holder releases a shard when the next holder is warm
	ruleAllDrained      rule = "all-drained"      // if all live replicas are drained, they get shards
)

type rules map[rule]bool
