// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"strings"
	"time"
)

// An incarnation is one life of a replica between the claim of its Lease and the loss of it. Its name is that of its Lease, the
// Pod's name and a random part, and is unique among all incarnations, past and future.

const partsBetween = "-" // partsBetween the name of the Pod and the random part.

// Incarnation returns the name of an incarnation in a Pod.
func Incarnation(pod, random string) string { return pod + partsBetween + random }

// PodOf returns the name of the Pod of an incarnation.
func PodOf(incarnation string) string {
	if at := strings.LastIndex(incarnation, partsBetween); at >= 0 {
		return incarnation[:at]
	}
	return incarnation
}

// Record is the lock of a shard, an object of its own.
type Record struct {
	Holder   string // Holder is the incarnation that may write while it has its Lease. Empty for a free shard.
	Epoch    int64  // Epoch is the number of holders so far. A release keeps it.
	Warm     string // Warm is the incarnation that has built the apps and waits for a release.
	Promised bool   // Promised: the holder is about to release to Warm, which stays warm until then.
	Version  string // Version is the resourceVersion; empty without an object.
}

// Lease is the Lease of an incarnation. A Lease without Held is over for its incarnation: it was released, overwritten, or changed
// by an administrator.
type Lease struct {
	UID  string // UID is that of the object: a Lease that is deleted and created again is another one.
	Held bool   // Held: the Lease names its incarnation as the holder, which renews it.
	// Ended: the gate is closed for good. Whoever writes it has waited; an administrator does not write it.
	Ended   bool
	Leaving bool      // Leaving: the replica is about to end, so that others get its shards.
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
