// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// ErrNotActive says that this replica has no shard, or cannot know that its Lease is valid.
var ErrNotActive = errors.New("this replica of the hub is not active")

// read calls f with the life, if there is one, while nothing in it changes. It does not block.
func (r *Replica) read(f func(*life)) {
	if l := r.life.Load(); l != nil {
		l.mu.RLock()
		defer l.mu.RUnlock()
		f(l)
	}
}

// HolderOf returns the Pod that holds a Cluster's shard, as far as this replica knows; may be empty.
func (r *Replica) HolderOf(uid types.UID) (pod string) {
	r.read(func(l *life) { pod = shards.PodOf(l.machine.Record(shards.Of(uid, r.options.Count)).Holder) })
	return pod
}

// Check gates writes to the management cluster: it matches ErrNotActive unless the Lease is valid, and this replica has a shard or
// builds its apps to take it, whose crashes are recorded, too.
func (r *Replica) Check() error {
	err := ErrNotActive
	r.read(func(l *life) {
		if l.machine.IsFresh(present()) && l.machine.IsActive() {
			err = nil
		}
	})
	return err
}

const lateAfter = 2 // lateAfter is in Timing.Retry. A renewal is due after one, and takes some milliseconds.

// IsLate reports whether a renewal is overdue; false before the claim and after the end of the apps. It does not block.
func (r *Replica) IsLate() (isLate bool) {
	r.read(func(l *life) { isLate = l.claimed && time.Since(l.began) > lateAfter*l.options.Timing.Retry })
	return isLate
}

// Observation is what a replica with a valid Lease knows at a moment.
type Observation struct {
	Me      string   // Me is the own Lease.
	Assigns bool     // Assigns: this replica is the assigner.
	Live    []string // Live Leases are those of replicas that may get shards, sorted. The own one is among them unless it leaves.
	Drained int      // Drained is how many of them an administrator has drained.
	Holders []string // Holders has, for each shard, the Lease of who holds it and renews it; may be empty.
	Free    []bool   // Free says, for each shard, that its record names none, or one that is known not to have its Lease.
	Epochs  []int64  // Epochs has, for each shard, the epoch in which this replica may write; zero for none.
}

// Observe is not ok while this replica has no valid Lease, or has not read those of others. It does not block.
func (r *Replica) Observe() (o Observation, ok bool) {
	r.read(func(l *life) {
		now := present()
		if ok = l.machine.IsFresh(now) && l.view.hasLeases; ok {
			o = l.observe(now)
		}
	})
	return o, ok
}

// observe needs l.mu.
func (l *life) observe(now shards.Instant) Observation {
	o := Observation{Me: l.me, Assigns: l.isAssigner(now), Live: l.machine.Live(now)}
	for _, name := range o.Live {
		if l.machine.IsDrained(name) {
			o.Drained++
		}
	}
	for shard := range l.options.Count + 1 {
		epoch, err := l.machine.Gate(shard, now)
		if err != nil {
			epoch = 0
		}
		o.Epochs = append(o.Epochs, epoch)
		o.Holders = append(o.Holders, l.machine.LiveHolder(shard, now))
		o.Free = append(o.Free, l.machine.HasNoHolder(shard))
	}
	return o
}

// HasEnded reports whether another Pod has no shard, and waits for none, or no Lease of it was renewed for the duration. It is false
// while the own Lease is not valid, or for less than that.
func (r *Replica) HasEnded(pod string) (hasEnded bool) {
	r.read(func(l *life) {
		now := present()
		isLong := !l.synced.IsZero() && now.Monotonic.Sub(l.synced) >= r.options.Timing.Duration
		hasEnded = pod != r.options.Pod && isLong && l.machine.IsFresh(now) && !l.machine.IsAnyLive(pod, now)
	})
	return hasEnded
}

// Tunnels returns what the Leases of other replicas that renew them say for tunnels, by Pod. It grants nothing.
func (r *Replica) Tunnels() map[string]string {
	all := map[string]string{}
	r.read(func(l *life) {
		now := present()
		for name, lease := range l.view.leases {
			if address := lease.Annotations[annotationTunnel]; address != "" && l.machine.UnchangedFor(name, now) < r.options.Timing.Duration {
				all[shards.PodOf(name)] = address
			}
		}
	})
	return all
}
