// SPDX-License-Identifier: Apache-2.0

package shards

import "time"

// Holder is one incarnation of one replica.
type Holder struct {
	Name string
	// Incarnation is unique among all of all replicas, past and future.
	Incarnation string
}

func (h Holder) isZero() bool { return h == Holder{} }

// Origin is the incarnation that had the apps of a shard before.
type Origin struct {
	// Holder may be zero.
	Holder
	// HasEnded without a release: it may have crashed while it started an app.
	HasEnded bool
}

// Record is the lock of a shard, an object of its own.
type Record struct {
	// Holder may write while its Lease has its incarnation. Zero for a free shard.
	Holder Holder
	// Epoch is the number of holders so far. A release keeps it.
	Epoch int64
	// Warm has built the apps and waits for a release.
	Warm Holder
	// Promised: the holder is about to release to Warm, which stays warm until then.
	Promised bool
	// Released is who released the shard when no replica was ready; zero while it has a holder. The next holder takes
	// over the crashes that it has recorded.
	Released Holder
	// Version is the resourceVersion; empty without an object.
	Version string
}

// Lease is the Lease of a replica.
type Lease struct {
	// Incarnation renews the Lease; empty after a release, or when another replica has overwritten it.
	Incarnation string
	// Ended is an earlier incarnation whose gate is closed for good. Whoever ends an incarnation writes it, after the
	// wait that makes sure; an administrator who removes Incarnation does not. It stays until another ends.
	Ended string
	// Leaving: the replica is about to end, so that others get its shards.
	Leaving bool
	// Drained: an administrator wants the replica to have no shards. Replicas never write it, and keep it.
	Drained bool
	// Renewed is by the replica's wall clock, for people only.
	Renewed time.Time
	// Version is the resourceVersion; empty without an object.
	Version string
}

// Instant is a moment by the two clocks of a process.
type Instant struct {
	// Monotonic is never set, but may stand still while the machine is suspended.
	Monotonic time.Time
	// Wall continues meanwhile, but may be set.
	Wall time.Time
}

// longestSince uses the clock that says longer.
func (i Instant) longestSince(then Instant) time.Duration {
	return max(i.Monotonic.Sub(then.Monotonic), i.Wall.Sub(then.Wall))
}

// Timing of Leases. Each is longer than the next.
type Timing struct {
	// Duration unchanged, after which others may overwrite a Lease.
	Duration time.Duration
	// Deadline since the last renewal, after which a replica no longer writes.
	Deadline time.Duration
	// Retry is between renewals.
	Retry time.Duration
}
