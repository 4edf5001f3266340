// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Long, because nothing depends on them: the turn is not lost.
const (
	TurnDuration = 3 * time.Hour
	TurnDeadline = 2 * time.Hour
	TurnRetry    = time.Hour
)

// turn is a lock in memory: a manager asks with filled caches, gets it with the lease, and keeps it until it is stopped.
type turn struct{ *Candidacy }

var _ resourcelock.Interface = turn{}

// Turn returns the lock that makes a manager wait until this hub has the lease.
func (c *Candidacy) Turn() resourcelock.Interface { return turn{c} }

// Get waits until the manager may lead, and returns a lease without a holder: the lock is free.
func (t turn) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	t.ask()
	select {
	case <-t.held:
		return nil, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), t.Describe())
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

func (t turn) Create(context.Context, resourcelock.LeaderElectionRecord) error { return nil }

func (t turn) Update(context.Context, resourcelock.LeaderElectionRecord) error { return nil }

func (t turn) RecordEvent(string) {}

func (t turn) Identity() string { return t.lock.Identity() }

func (t turn) Describe() string { return t.lock.Describe() }
