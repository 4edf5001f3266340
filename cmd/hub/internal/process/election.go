// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/lease"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/mode"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/registry"
)

// election is a term's part in the election. A hub that is alone has none.
type election struct {
	candidacy *lease.Candidacy // nil: the hub is alone
	wayBack   *mode.WayBack    // from Sharded mode
	observer  *replica.Lookout
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
	e := &election{candidacy: candidacy, name: o.Election.ID, log: o.Log, done: make(chan struct{})}
	if e.observer, err = replica.NewObserver(o.Config, o.CredentialsNamespace, o.Sharing.Timing); err != nil {
		return nil, err
	}
	changes := o.modeOptions()
	changes.Every = o.Election.RetryPeriod
	if e.wayBack, err = mode.NewWayBack(changes, e.observer.Running); err != nil {
		return nil, err
	}
	return e, nil
}

// gate may be nil. The lease has no number.
func (e *election) gate() func(registry.ClusterName) (term int64, err error) {
	if e.candidacy == nil {
		return nil
	}
	return func(registry.ClusterName) (int64, error) { return 0, e.candidacy.Check() }
}

func (e *election) isLate() bool { return e.candidacy != nil && e.candidacy.IsLate() }

// guard puts the gate before the hub's own clients, and makes the manager wait for its turn.
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

func (e *election) start(ctx context.Context) {
	if e.candidacy == nil {
		return
	}
	ctx, e.cancel = context.WithCancel(ctx)
	go func() {
		defer close(e.done)
		defer background(ctx, e.standBy)()
		e.candidacy.Run(ctx)
	}()
}

// standBy releases the lease from ended replicas in Sharded mode, until this hub has it or ctx ends.
func (e *election) standBy(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var releasing sync.WaitGroup
	releasing.Go(func() {
		defer e.observer.Close()
		e.wayBack.Run(ctx)
	})
	defer releasing.Wait()
	defer cancel()
	select {
	case <-e.candidacy.Held():
	case <-ctx.Done():
	}
}

// waiting is empty unless it waits for the end of Sharded mode.
func (e *election) waiting() string {
	if e.candidacy == nil {
		return ""
	}
	return e.wayBack.Waiting()
}

func (e *election) lost() <-chan struct{} {
	if e.candidacy == nil {
		return nil
	}
	return e.candidacy.Lost()
}

// finish releases the lease if nothing that needs it runs. Otherwise it runs out by itself.
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
