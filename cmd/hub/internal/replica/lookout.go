// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// Lookout finds out whether replicas of an installation run, from outside. It is for one goroutine.
type Lookout struct {
	store    *store
	duration time.Duration
	machine  *shards.Machine // what was seen; nil when the observation begins
	names    sets.Set[string]
}

// NewObserver sends no request. timing is that of the replicas, by default that of Options; a Lease may name a longer duration.
func NewObserver(config *rest.Config, namespace string, timing shards.Timing) (*Lookout, error) {
	o := withDefaults(Options{Config: config, Namespace: namespace, Timing: timing})
	c, err := connect(o)
	if err != nil {
		return nil, fmt.Errorf("build the client of the observer: %w", err)
	}
	return &Lookout{store: &store{timeout: o.Timing.Deadline / 2, log: o.Log.V(1), others: c}, duration: o.Timing.Duration}, nil
}

// Running returns who may write: replicas whose Leases have not ended, and holders not known to have ended. If no replica is
// live, it ends incarnations with Leases unchanged for the duration; the next call finds that. An error restarts the observation.
func (o *Lookout) Running(ctx context.Context) ([]string, error) {
	names, err := o.running(ctx)
	if err != nil {
		o.machine = nil
		o.store.others.close()
		return nil, fmt.Errorf("find out which replicas run: %w", err)
	}
	return names, nil
}

func (o *Lookout) running(ctx context.Context) ([]string, error) {
	var all *coordinationv1.LeaseList
	err := o.store.do(ctx, o.store.others, func(ctx context.Context) (err error) {
		all, err = o.store.others.leases.List(ctx, metav1.ListOptions{LabelSelector: label})
		return err
	})
	if err != nil {
		return nil, err
	}
	leases, records, err := o.decode(all.Items)
	if err != nil {
		return nil, err
	}
	now := present()
	live, expired := o.see(leases, now)
	if len(live) > 0 {
		return sets.List(live), nil
	}
	for name, l := range expired {
		live.Insert(name)
		if err := o.end(ctx, name, l); err != nil {
			return nil, err
		}
	}
	for _, r := range records {
		if !o.machine.MayTake(r.Holder, leases[r.Holder.Name], now) {
			live.Insert(r.Holder.Name)
		}
	}
	return sets.List(live), nil
}

// decode gets objects of one moment: a Lease without a record's incarnation has lost it.
func (o *Lookout) decode(all []coordinationv1.Lease) (leases map[string]shards.Lease, records []shards.Record, err error) {
	leases = map[string]shards.Lease{}
	for i := range all {
		switch one := &all[i]; one.Labels[label] {
		case labelReplica:
			if leases[one.Name], err = decodeLease(one); err != nil {
				return nil, nil, err
			}
			o.lengthen(one)
		case labelRecord:
			r, err := decodeRecordSpec(one)
			if err != nil {
				return nil, nil, err
			}
			records = append(records, r)
		}
	}
	return leases, records, nil
}

func (o *Lookout) lengthen(l *coordinationv1.Lease) {
	if l.Spec.LeaseDurationSeconds == nil {
		return
	}
	if d := time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second; d > o.duration {
		o.duration, o.machine = d, nil
	}
}

// see returns the replicas that may be live, and the expired Leases. A vanished Lease counts as unchanged since.
func (o *Lookout) see(leases map[string]shards.Lease, now shards.Instant) (live sets.Set[string], expired map[string]shards.Lease) {
	if o.machine == nil {
		o.machine, o.names = shards.New(shards.Holder{}, 0, shards.Timing{Duration: o.duration}), sets.New[string]()
	}
	live, expired = sets.New[string](), map[string]shards.Lease{}
	for name := range leases {
		o.names.Insert(name)
	}
	for name := range o.names {
		l, exists := leases[name]
		o.machine.SeeLease(name, l, now)
		_, since := o.machine.LeaseOf(name, now)
		switch isOver := now.Monotonic.Sub(since.Monotonic) >= o.duration; {
		case exists && l.Incarnation == "", !exists && isOver:
		case isOver:
			expired[name] = l
		default:
			live.Insert(name)
		}
	}
	return live, expired
}

func (o *Lookout) end(ctx context.Context, name string, l shards.Lease) error {
	_, err := o.store.swapLease(ctx, o.store.others, name, encodeLease(shards.Lease{Ended: l.Incarnation, Renewed: l.Renewed, Version: l.Version}))
	if errors.Is(err, errConflict) {
		return nil // The next call sees the change.
	}
	return err
}

// Close closes the connections of the Observer.
func (o *Lookout) Close() { o.store.others.close() }
