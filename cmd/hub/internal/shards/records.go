// SPDX-License-Identifier: Apache-2.0

package shards

import "time"

// Holder is one incarnation of one replica.
type Holder struct {
	Name        string
	Incarnation string // Incarnation is unique among all of all replicas, past and future.
}

func (h Holder) isZero() bool { return h == Holder{} }

// Origin is the incarnation that had the apps of a shard before.
type Origin struct {
	Holder        // Holder may be zero.
	HasEnded bool // HasEnded without a release: it may have crashed while it started an app.
}

// Record is the lock of a shard, an object of its own.
type Record struct {
	Holder   Holder // Holder may write while its Lease has its incarnation. Zero for a free shard.
	Epoch    int64  // Epoch is the number of holders so far. A release keeps it.
	Warm     Holder // Warm has built the apps and waits for a release.
	Promised bool   // Promised: the holder is about to release to Warm, which stays warm until then.
	// Released is who released the shard when no replica was ready, for its crashes; zero while the shard has a holder.
	Released Holder
	Version  string // Version is the resourceVersion; empty without an object.
}

// Lease is the Lease of a replica.
type Lease struct {
	Incarnation string // Incarnation renews the Lease; empty after a release, or when another replica has overwritten it.
	// Ended has a gate closed for good: whoever writes it has waited; an administrator does not write it. It stays until another.
	Ended   string
	Leaving bool      // Leaving: the replica is about to end, so that others get its shards.
	Drained bool      // Drained: an administrator wants the replica to have no shards. Replicas never write it, and keep it.
	Renewed time.Time // Renewed is by the replica's wall clock, for people only.
	Version string    // Version is the resourceVersion; empty without an object.
}

// Instant is a moment by the two clocks of a process.
type Instant struct {
	Monotonic time.Time // Monotonic is never set, but may stand still while the machine is suspended.
	Wall      time.Time // Wall continues meanwhile, but may be set.
}

// longestSince uses the clock that says longer.
func (i Instant) longestSince(then Instant) time.Duration {
	return max(i.Monotonic.Sub(then.Monotonic), i.Wall.Sub(then.Wall))
}

// Timing of Leases. Each is longer than the next.
type Timing struct {
	Duration time.Duration // Duration unchanged, after which others may overwrite a Lease.
	Deadline time.Duration // Deadline since the last renewal, after which a replica no longer writes.
	Retry    time.Duration // Retry is between renewals.
}
