// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// ErrNoLease says that this replica does not have its Lease at this moment: it has not claimed it yet, could not renew it in
// time, or has lost it.
var ErrNoLease = errors.New("this replica of the hub has no valid lease")

// HolderOf returns the name of the replica that holds the shard of a Cluster, as far as this replica knows; empty for none.
func (r *Replica) HolderOf(uid types.UID) string {
	l := r.life.Load()
	if l == nil {
		return ""
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.machine.HolderOf(shards.Of(uid, r.options.Count)).Name
}

// Check returns an error that matches ErrNoLease unless no other replica can take the place of this one at this moment. It
// is the gate of writes that do not belong to a shard, and does not block.
func (r *Replica) Check() error {
	l := r.life.Load()
	if l == nil {
		return ErrNoLease
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.barred.Load() || !l.machine.IsFresh(present()) {
		return ErrNoLease
	}
	return nil
}

// lateAfter is the number of Timing.Retry after which a renewal is late. A renewal is due after one, and takes some milliseconds.
const lateAfter = 2

// IsLate reports whether this replica has not begun a successful renewal of its Lease for longer than it should, because a renewal takes
// too long or fails. It is false before the claim, and after the end of the apps that had the Lease. It does not block.
func (r *Replica) IsLate() bool {
	l := r.life.Load()
	if l == nil {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.claimed && time.Since(l.began) > lateAfter*l.options.Timing.Retry
}

// Observation is what a replica with a valid Lease knows of the installation at a moment.
type Observation struct {
	// Me is the name of this replica.
	Me string
	// Duration is how long a Lease is unchanged before it is over.
	Duration time.Duration
	// Live are the names of the replicas that may get shards, sorted. This one is among them unless it leaves.
	Live []string
	// Drained is how many of them an administrator has drained.
	Drained int
	// Holders has, for each shard, the name of the replica that holds it and renews its Lease; empty for none.
	Holders []string
	// Epochs has, for each shard, the epoch in which this replica may write to its Clusters; zero if it may not.
	Epochs []int64
}

// Observe returns what this replica knows. It is not ok while this replica has no valid Lease, or has not read the Leases of the
// others yet.
func (r *Replica) Observe() (o Observation, ok bool) {
	l := r.life.Load()
	if l == nil {
		return Observation{}, false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	now := present()
	if l.barred.Load() || !l.machine.IsFresh(now) || !l.view.hasLeases {
		return Observation{}, false
	}
	o = Observation{Me: l.me.Name, Duration: r.options.Timing.Duration, Live: l.machine.Live(now)}
	for _, name := range o.Live {
		if l.machine.IsDrained(name) {
			o.Drained++
		}
	}
	for shard := range r.options.Count {
		epoch, err := l.machine.Gate(shard, now)
		if err != nil {
			epoch = 0
		}
		o.Epochs = append(o.Epochs, epoch)
		o.Holders = append(o.Holders, l.machine.LiveHolder(shard, now))
	}
	return o, true
}

// LeaseOf returns the Lease of another replica as this replica knows it, and since when it is unchanged by the monotonic clock of
// this replica. The Lease of a replica that this one has never seen is missing from now on.
func (r *Replica) LeaseOf(name string) (found shards.Lease, since time.Time) {
	now := present()
	l := r.life.Load()
	if l == nil {
		return shards.Lease{}, now.Monotonic
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found, at := l.machine.LeaseOf(name, now)
	return found, at.Monotonic
}

// ReadLease reads the Lease of another replica from the API server, consistently. LeaseOf returns what it has found. A name that
// no replica can have has no Lease, and is not read.
func (r *Replica) ReadLease(ctx context.Context, name string) error {
	l := r.life.Load()
	if l == nil {
		return ErrNoLease
	}
	if !isName(name) {
		l.seeLease(name, nil)
		return nil
	}
	found, err := l.store.getLease(ctx, l.store.others, name)
	if err != nil {
		return err
	}
	l.seeLease(name, found)
	return nil
}

// HasEnded reports whether this replica knows that another replica is not alive: its Lease is unchanged, or missing, for the
// duration of the Leases. It is false while this replica has no valid Lease, or has not read the Leases of the others yet.
func (r *Replica) HasEnded(name string) bool {
	l := r.life.Load()
	switch {
	case !isName(name): // No replica can have it.
		return true
	case l == nil, name == r.options.Name:
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := present()
	if l.barred.Load() || !l.machine.IsFresh(now) || !l.view.hasLeases {
		return false
	}
	_, since := l.machine.LeaseOf(name, now)
	return now.Monotonic.Sub(since.Monotonic) >= r.options.Timing.Duration
}
