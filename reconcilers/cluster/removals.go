// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// removals are in progress, or their Cluster is still cached. Each has a goroutine: a dead remote takes all its time.
//
// With a deletionTimestamp cleanup steps run. A vanished Cluster is no evidence: the API server may have lost its data or been
// restored. Its app stops, and its objects stay.
//
// It waits for those goroutines when the hub ends, and its source triggers a reconcile when a removal is done.
type removals struct {
	remotes ender
	within  time.Duration // for one removal
	memory  *memory

	over     bool // the hub ends; with the lock of the memory
	requests watch.Requests
	work     sync.WaitGroup
}

type ender interface {
	Remove(ctx context.Context, name registry.ClusterName) error
	Stop(ctx context.Context, name registry.ClusterName) error
	Status(name registry.ClusterName) (registry.Status, bool)
}

type removal struct {
	isStop bool // without cleanup steps
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read it only after done
}

func (one *removal) isDone() bool {
	select {
	case <-one.done:
		return true
	default:
		return false
	}
}

var _ manager.LeaderElectionRunnable = (*removals)(nil)

// NeedLeaderElection returns true: without a running reconciler there are no removals.
func (r *removals) NeedLeaderElection() bool { return true }

// Start waits for the end of ctx, cancels the removals in progress, and waits for their end.
func (r *removals) Start(ctx context.Context) error {
	<-ctx.Done()
	r.memory.mu.Lock()
	r.over = true
	for _, s := range r.memory.clusters {
		if s.removal != nil {
			s.removal.cancel()
		}
	}
	r.memory.mu.Unlock()
	r.work.Wait()
	return nil
}

// isStopping forgets a stop that has ended: it is no removal of a Cluster that has returned.
func (r *removals) isStopping(s *seen) bool {
	if s.removal == nil || !s.removal.isStop {
		return false
	}
	if !s.removal.isDone() {
		return true
	}
	r.forget(s)
	return false
}

// stop is begin for a Cluster that has vanished: no cleanup step runs.
func (r *removals) stop(ctx context.Context, s *seen) *removal {
	return r.begin(ctx, s, r.remotes.Stop, true)
}

// letGo is stop for a Cluster that another hub runs, and ends a removal that has begun: that hub removes the Cluster.
func (r *removals) letGo(ctx context.Context, s *seen) *removal {
	if s.removal != nil && !s.removal.isStop {
		s.removal.cancel()
		r.forget(s)
	}
	return r.stop(ctx, s)
}

type ending func(ctx context.Context, name registry.ClusterName) error // ending ends a remote.

// begin begins the removal if there is none; nil means no remote. It does not wait.
func (r *removals) begin(ctx context.Context, s *seen, end ending, isStop bool) *removal {
	name := registry.ClusterName(s.name)
	if _, runs := r.remotes.Status(name); s.removal != nil || !runs {
		return s.removal
	}
	s.posted = posted{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // It ends with the hub, not with the reconcile.
	one := &removal{isStop: isStop, began: time.Now(), cancel: cancel, done: make(chan struct{})}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if r.over {
		cancel()
		return one // It is never done.
	}
	s.removal = one
	r.work.Go(func() {
		defer cancel()
		one.err = r.run(ctx, name, end)
		close(one.done)
		r.requests.Add(s.name, 0)
	})
	return one
}

// lastWords is the extra time in which a removal that has run out of time reports the steps that it gives up.
const lastWords = 3 * time.Second

// run: a remote that ends between the two calls is unknown to the second; the first error has the given-up steps.
func (r *removals) run(ctx context.Context, name registry.ClusterName, end ending) error {
	late := runFor(ctx, name, r.within, end)
	if !errors.Is(late, context.DeadlineExceeded) {
		return late
	}
	err := runFor(ctx, name, lastWords, end)
	if errors.Is(err, registry.ErrNotFound) {
		return late
	}
	return err
}

func runFor(ctx context.Context, name registry.ClusterName, d time.Duration, end ending) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return end(ctx, name)
}

func (r *removals) forget(s *seen) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	s.removal = nil
}
