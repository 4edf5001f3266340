// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/lease"
	"github.com/clusterfx/clusterfx/registry"
)

// election is a term's part in the election of the hub that works. In a hub that is alone, there is
// none.
type election struct {
	candidacy *lease.Candidacy // nil: the hub is alone
	name      string
	log       logr.Logger
	cancel    context.CancelFunc
	done      chan struct{} // closed when the candidacy has ended
}

func newElection(o Options, alive func() error) (*election, error) {
	if !o.Election.Enabled {
		return &election{}, nil
	}
	candidacy, err := lease.New(lease.Options{
		Config: o.Config, Log: o.Log.WithName("leaderelection"),
		Namespace: o.Election.Namespace, Name: o.Election.ID, Identity: o.identity,
		Duration: o.Election.LeaseDuration, RenewDeadline: o.Election.RenewDeadline, RetryPeriod: o.Election.RetryPeriod,
		Alive: alive,
	})
	if err != nil {
		return nil, err
	}
	return &election{candidacy: candidacy, name: o.Election.ID, log: o.Log, done: make(chan struct{})}, nil
}

// gate returns the function that refuses writes while this hub may not write, or nil.
func (e *election) gate() func(registry.ClusterName) error {
	if e.candidacy == nil {
		return nil
	}
	return func(registry.ClusterName) error { return e.candidacy.Check() }
}

// guard puts the gate before the wire of the hub's own clients, and makes the manager wait for its
// turn.
func (e *election) guard(mgr *managerOptions) {
	if e.candidacy == nil {
		return
	}
	mgr.config.Wrap(e.candidacy.Guard)
	duration, deadline, retry := lease.TurnDuration, lease.TurnDeadline, lease.TurnRetry
	mgr.LeaderElection, mgr.LeaderElectionID = true, e.name
	mgr.LeaderElectionResourceLockInterface = e.candidacy.Turn()
	mgr.LeaseDuration, mgr.RenewDeadline, mgr.RetryPeriod = &duration, &deadline, &retry
}

// start begins; finish ends.
func (e *election) start(ctx context.Context) {
	if e.candidacy == nil {
		return
	}
	ctx, e.cancel = context.WithCancel(ctx)
	go func() {
		defer close(e.done)
		e.candidacy.Run(ctx)
	}()
}

// lost returns a channel that is closed when this hub had the lease and has it no more.
func (e *election) lost() <-chan struct{} {
	if e.candidacy == nil {
		return nil
	}
	return e.candidacy.Lost()
}

// finish releases the lease, if this hub has it and no component that needs it is running. Otherwise the
// lease runs out by itself.
func (e *election) finish(ctx context.Context, nothingLeft bool) {
	if e.candidacy == nil {
		return
	}
	if !nothingLeft {
		e.candidacy.Forfeit()
	}
	e.cancel()
	<-e.done
	ctx, cancel := context.WithTimeoutCause(ctx, leaseReserve, fmt.Errorf("no answer within %s", leaseReserve))
	defer cancel()
	if err := e.candidacy.GiveBack(ctx); err != nil {
		e.log.Error(err, "The next leader has to wait until the lease has run out")
	}
}
