// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/clusterfx/clusterfx/registry"
)

// ErrNotLeader says that this hub does not hold the lease, or cannot know that it does.
var ErrNotLeader = registry.ErrStandby

// Options say which lease, and how it is kept. All but Alive and Log are required.
type Options struct {
	Config          *rest.Config
	Namespace, Name string
	// Identity is unique among hubs, and stays in a process, so that it gets a lease without a new holder at once.
	Identity string
	// Duration is how long others wait after the last renewal that they saw, RenewDeadline how long this hub works
	// without one, RetryPeriod the time between tries. Each is longer than the next.
	Duration, RenewDeadline, RetryPeriod time.Duration
	// Alive returns an error while this hub makes no progress and must not renew. Default: it does.
	Alive func() error
	Log   logr.Logger // Log gets client-go's election: errors, and the rest for debugging. Default: discards.
}

// Candidacy is one try to get the lease, and the time for which it is kept. It is safe for many goroutines.
type Candidacy struct {
	lock     *watchedLock
	deadline time.Duration
	retry    time.Duration
	elector  *leaderelection.LeaderElector
	log      logr.Logger

	asked, held, lost chan struct{} // closed when it has come so far
	ask               func()
	mu                sync.Mutex              // protects the closing of held and lost
	renewed           atomic.Pointer[instant] // when the last renewal began; nil before the first, and after the end
	over              atomic.Bool             // the lease is gone for good
}

// New returns a candidacy that has not begun. It sends no request.
func New(o Options) (*Candidacy, error) {
	c := &Candidacy{
		deadline: o.RenewDeadline, retry: o.RetryPeriod, log: o.Log.V(1),
		asked: make(chan struct{}), held: make(chan struct{}), lost: make(chan struct{}),
	}
	c.ask = sync.OnceFunc(func() { close(c.asked) })
	var err error
	if c.lock, err = newLock(o, c); err != nil {
		return nil, fmt.Errorf("build the client for the lease: %w", err)
	}
	c.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c.lock, Name: o.Name,
		LeaseDuration: o.Duration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the leader election: %w", err)
	}
	return c, nil
}

// Ask lets Run try to get the lease, as a manager's turn does.
func (c *Candidacy) Ask() { c.ask() }

// Run waits for Ask and keeps the lease until it is lost, or ctx ends. Then call GiveBack or Forfeit. It must be called once.
func (c *Candidacy) Run(ctx context.Context) {
	defer c.lock.close()
	select {
	case <-c.asked:
	case <-ctx.Done():
		return
	}
	electing, cancel := context.WithCancel(logr.NewContext(ctx, c.log))
	defer cancel()
	go func() { // It ends with Run.
		select {
		case <-c.lost:
			cancel()
		case <-electing.Done():
		}
	}()
	c.elector.Run(electing)
	if ctx.Err() == nil {
		c.end()
	}
}

// GiveBack closes the gate for good and gives a held lease back. Call it after Run, when nothing that needs the lease runs.
func (c *Candidacy) GiveBack(ctx context.Context) error {
	if !c.isHeld() {
		return nil
	}
	c.end()
	defer c.lock.close()
	if err := c.lock.giveBack(ctx); err != nil {
		return fmt.Errorf("give back the lease %s: %w", c.lock.Describe(), err)
	}
	return nil
}

// Held returns a channel that is closed when this hub gets the lease.
func (c *Candidacy) Held() <-chan struct{} { return c.held }

// Lost returns a channel that is closed when the lease is lost, for any reason.
func (c *Candidacy) Lost() <-chan struct{} { return c.lost }

// Check returns nil if this hub may write now, else an error that matches ErrNotLeader. It takes nanoseconds.
func (c *Candidacy) Check() error {
	renewed := c.renewed.Load()
	if renewed == nil {
		return ErrNotLeader
	}
	if age := present().since(*renewed); age > c.deadline {
		return fmt.Errorf("%w, because it cannot know that it still holds the lease: the last renewal was %s ago",
			ErrNotLeader, age.Round(time.Millisecond))
	}
	return nil
}

const lateAfter = 2 // lateAfter is in RetryPeriods. A renewal is due after one, and takes some milliseconds.

// IsLate reports whether the lease is held, and its renewal overdue.
func (c *Candidacy) IsLate() bool {
	renewed := c.renewed.Load()
	return renewed != nil && present().since(*renewed) > lateAfter*c.retry
}

// Forfeit closes the gate for good and lets the lease expire, which gives code that still runs the time to end.
func (c *Candidacy) Forfeit() { c.end() }

func (c *Candidacy) renew(begin instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Load() {
		return
	}
	if c.renewed.Swap(&begin) == nil {
		close(c.held)
	}
}

func (c *Candidacy) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over.Store(true)
	if c.renewed.Swap(nil) != nil {
		close(c.lost)
	}
}

// isHeld does not look at the age of the last renewal.
func (c *Candidacy) isHeld() bool { return c.renewed.Load() != nil }
