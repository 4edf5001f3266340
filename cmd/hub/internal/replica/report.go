// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// ErrNoLease says that this replica has not claimed its Lease yet, could not renew it in time, or has lost it.
var ErrNoLease = errors.New("this replica of the hub has no valid lease")

// HolderOf returns the replica that holds a Cluster's shard, as far as this one knows; may be empty.
func (r *Replica) HolderOf(uid types.UID) string {
	l := r.life.Load()
	if l == nil {
		return ""
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.machine.HolderOf(shards.Of(uid, r.options.Count)).Name
}

// Check gates writes without a shard: it matches ErrNoLease if another replica may take this one's place. It does not block.
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

const lateAfter = 2 // lateAfter is in Timing.Retry. A renewal is due after one, and takes some milliseconds.

// IsLate reports whether a renewal is overdue; false before the claim and after the end of the apps. It does not block.
func (r *Replica) IsLate() bool {
	l := r.life.Load()
	if l == nil {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.claimed && time.Since(l.began) > lateAfter*l.options.Timing.Retry
}

// Observation is what a replica with a valid Lease knows at a moment.
type Observation struct {
	Me       string
	Duration time.Duration
	Live     []string // Live replicas may get shards, sorted. This one is among them unless it leaves.
	Drained  int      // Drained is how many of them an administrator has drained.
	Holders  []string // Holders has, for each shard, who holds it and renews its Lease; may be empty.
	Epochs   []int64  // Epochs has, for each shard, the epoch in which this replica may write; zero for none.
}

// Observe is not ok while this replica has no valid Lease, or has not read those of others.
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

// LeaseOf returns another's Lease, and since when it is unchanged by the monotonic clock; never seen is missing from now on.
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

// ReadLease reads another replica's Lease, consistently, for LeaseOf. A name that no replica can have is not read.
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

// HasEnded reports whether another replica's Lease is over. It is false while this one's is not valid, or others are not read.
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
