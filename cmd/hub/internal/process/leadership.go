// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/lease"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/registry"
)

// leadership elects among replicas that share the remotes. Its loss ends the leader's work, not the term.
type leadership struct {
	options lease.Options
	within  time.Duration // how long the work of a leadership may take to end
	cancel  context.CancelFunc
	done    chan struct{}                                  // closed when the last candidacy has ended
	permit  func(context.Context) (context.Context, error) // waits until replicas work, and returns a context that ends when they do not
	valid   func() error                                   // returns an error if another replica can take the place of this one
	left    bool                                           // work of the last leadership has not ended; read it only after done

	candidacy atomic.Pointer[lease.Candidacy] // the current one; nil before the first

	mu      sync.Mutex // protects the fields, and those of tenures
	current *tenure    // nil while this replica does not lead
	elected chan struct{}
}

var _ registry.Turn = (*leadership)(nil)

type tenure struct {
	leads context.Context //nolint:containedctx // Ends with the leadership.
	end   context.CancelCauseFunc
	works int           // what works and has not ended
	idle  chan struct{} // closed when nothing works, after the end
}

func newLeadership(o Options, alive func() error) (*leadership, error) {
	l := &leadership{
		options: lease.Options{
			Config: o.Config, Log: o.Log.WithName("leadership"),
			Namespace: o.Election.Namespace, Name: roles.LeaderLease(o.Election.ID), Identity: o.identity,
			Duration: o.Election.LeaseDuration, RenewDeadline: o.Election.RenewDeadline, RetryPeriod: o.Election.RetryPeriod,
			Alive: alive,
		},
		within: o.Registry.Limits.StopTimeout, done: make(chan struct{}), elected: make(chan struct{}),
		permit: func(ctx context.Context) (context.Context, error) {
			return context.WithoutCancel(ctx), context.Cause(ctx)
		},
		valid: func() error { return nil },
	}
	_, err := lease.New(l.options)
	return l, err
}

// Await and Check are those of registry.Turn.
func (l *leadership) Await(ctx context.Context) (leads context.Context, ended func(), err error) {
	for ctx.Err() == nil {
		l.mu.Lock()
		t, elected := l.current, l.elected
		if t != nil {
			t.works++
		}
		l.mu.Unlock()
		if t != nil {
			return t.leads, sync.OnceFunc(func() { l.leave(t) }), nil
		}
		select {
		case <-elected:
		case <-ctx.Done():
		}
	}
	return nil, nil, context.Cause(ctx)
}

func (l *leadership) Check() error {
	candidacy := l.candidacy.Load()
	if candidacy == nil {
		return registry.ErrStandby
	}
	if err := l.valid(); err != nil {
		return fmt.Errorf("%w: %w", registry.ErrStandby, err)
	}
	return candidacy.Check()
}

func (l *leadership) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	go func() {
		defer close(l.done)
		for ctx.Err() == nil {
			if permitted, err := l.permit(ctx); err == nil {
				l.serve(ctx, permitted)
			}
		}
	}()
}

// serve leads from its election until the lease is lost, or ctx or permitted ends.
func (l *leadership) serve(ctx, permitted context.Context) {
	candidacy, err := lease.New(l.options)
	if err != nil {
		l.options.Log.Error(err, "Failed to become a candidate for the leadership")
		pause(ctx, l.options.RetryPeriod)
		return
	}
	l.candidacy.Store(candidacy)
	candidacy.Ask()
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx)) // The work of the leader ends before the renewals do.
	var running sync.WaitGroup
	running.Go(func() { candidacy.Run(renewing) })
	defer func() {
		cancel()
		running.Wait()
		if permitted.Err() != nil {
			l.release(ctx)
		}
	}()
	select {
	case <-candidacy.Held():
	case <-ctx.Done():
		return
	case <-permitted.Done():
		return
	}
	t := l.begin(ctx)
	select {
	case <-candidacy.Lost():
	case <-ctx.Done():
	case <-permitted.Done():
	}
	l.end(t)
}

func (l *leadership) begin(ctx context.Context) *tenure {
	t := &tenure{idle: make(chan struct{})}
	t.leads, t.end = context.WithCancelCause(context.WithoutCancel(ctx))
	l.options.Log.Info("This replica leads")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = t
	close(l.elected)
	return t
}

// end returns when the leader's work has ended or takes too long.
func (l *leadership) end(t *tenure) {
	l.mu.Lock()
	l.current, l.elected = nil, make(chan struct{})
	if t.works == 0 {
		close(t.idle)
	}
	l.mu.Unlock()
	t.end(registry.ErrStandby)
	patience := time.NewTimer(l.within)
	defer patience.Stop()
	select {
	case <-t.idle:
		l.left = false
	case <-patience.C:
		l.left = true
	}
	l.options.Log.Info("This replica no longer leads", "allHasEnded", !l.left)
}

func (l *leadership) leave(t *tenure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.works--; t.works == 0 && l.current != t {
		close(t.idle)
	}
}

// finish gives the lease back if all work has ended. Otherwise it runs out by itself.
func (l *leadership) finish(ctx context.Context) {
	l.cancel()
	<-l.done
	l.release(ctx)
}

// release is for the last candidacy, which has ended.
func (l *leadership) release(ctx context.Context) {
	candidacy := l.candidacy.Load()
	if candidacy == nil {
		return
	}
	if l.left {
		candidacy.Forfeit()
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), leaseReserve, fmt.Errorf("no answer within %s", leaseReserve))
	defer cancel()
	if err := candidacy.GiveBack(ctx); err != nil {
		l.options.Log.Error(err, "The next leader has to wait until the lease of the leadership has run out")
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
