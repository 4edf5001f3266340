// SPDX-License-Identifier: Apache-2.0

package shards

import "time"

// Holder is one incarnation of one replica.
type Holder struct {
	// Name is the name of the replica, and of its Lease.
	Name string
	// Incarnation is unique among all incarnations of all replicas, of the past and of the future.
	Incarnation string
}

// isZero reports whether there is no holder.
func (h Holder) isZero() bool { return h == Holder{} }

// Origin is the incarnation that had the apps of a shard before.
type Origin struct {
	// Holder is that incarnation, or zero.
	Holder
	// HasEnded says that it has ended without a release. It may have crashed while it started an app of the shard.
	HasEnded bool
}

// Record is the record of a shard, an object of its own. It is the lock of the shard.
type Record struct {
	// Holder may write to the Clusters of the shard while its Lease has its incarnation. It is zero when the shard is
	// free.
	Holder Holder
	// Epoch is the number of holders that the shard has had. It stays when the shard is released.
	Epoch int64
	// Warm is the replica that has built the apps of the shard and waits for the holder to release it.
	Warm Holder
	// Promised says that the holder is about to release the shard to Warm, which stays warm until then.
	Promised bool
	// Released is the holder that has released the shard when no other replica was ready for it. It is zero while the shard
	// has a holder. The next holder takes over the crashes that it has recorded.
	Released Holder
	// Version is the resourceVersion. It is empty if the object does not exist.
	Version string
}

// Lease is the Lease of a replica.
type Lease struct {
	// Incarnation is the incarnation that renews the Lease. It is empty when the incarnation has released the Lease, or
	// another replica has overwritten it.
	Incarnation string
	// Ended is an earlier incarnation whose gate is closed permanently. It is written by who ends an incarnation, after the
	// wait that makes sure of it; an administrator who removes or changes Incarnation does not write it. It stays until
	// another incarnation ends.
	Ended string
	// Leaving says that the replica is about to end, so that its shards are assigned to others.
	Leaving bool
	// Drained says that an administrator wants the replica to have no shards. No replica writes it, and a change of the other
	// fields keeps it.
	Drained bool
	// Renewed is the time of the renewal by the wall clock of the replica. It is for people: no decision reads it.
	Renewed time.Time
	// Version is the resourceVersion. It is empty if the object does not exist.
	Version string
}

// Instant is a moment by the two clocks of a process.
type Instant struct {
	// Monotonic is never set, but may stand still while the machine is suspended.
	Monotonic time.Time
	// Wall continues while the machine is suspended, but may be set.
	Wall time.Time
}

// longestSince is the age of a moment by the clock that says longer.
func (i Instant) longestSince(then Instant) time.Duration {
	return max(i.Monotonic.Sub(then.Monotonic), i.Wall.Sub(then.Wall))
}

// Timing has the durations of Leases. Each is longer than the next.
type Timing struct {
	// Duration is how long a Lease has to be unchanged before another replica may overwrite it.
	Duration time.Duration
	// Deadline is the age of the last renewal after which a replica no longer writes.
	Deadline time.Duration
	// Retry is the time between two renewals.
	Retry time.Duration
}
