// SPDX-License-Identifier: Apache-2.0

package mode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrNotSharded says that the installation is not, or no longer, in Sharded mode.
var ErrNotSharded = errors.New("the installation is not in Sharded mode")

// Sharded changes an installation to Sharded mode, and observes that it stays so. It is safe for many goroutines.
type Sharded struct {
	options Options
	decider decider
	store   *store

	seen  lock      // of the last read of Run, which only Run uses
	since time.Time // when it was read first, by the monotonic clock

	mu      sync.Mutex // protects the fields below
	current *permit    // nil while replicas may not work
	changed chan struct{}
	waiting string // what Run waits for; empty while replicas may work
}

type permit struct {
	permitted context.Context //nolint:containedctx // Ends with the mode.
	end       context.CancelCauseFunc
}

// NewSharded returns a Sharded that has not begun. It sends no request.
func NewSharded(o Options) (*Sharded, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	return &Sharded{options: o, decider: o.decider(), store: s, changed: make(chan struct{}), waiting: "has not read the Lease of leader mode"}, nil
}

// Run acquires the Lease for the installation, again when it is lost, until ctx ends; it is kept then. It must be called once.
func (s *Sharded) Run(ctx context.Context) {
	defer s.store.close()
	defer s.lose("")
	for ctx.Err() == nil {
		if again := s.try(ctx); !again {
			pause(ctx, s.options.Every)
		}
	}
}

// Await returns in Sharded mode, with a context that ends with it (ErrNotSharded), or with the cause of ctx.
func (s *Sharded) Await(ctx context.Context) (permitted context.Context, err error) {
	for ctx.Err() == nil {
		s.mu.Lock()
		current, changed := s.current, s.changed
		s.mu.Unlock()
		if current != nil {
			return current.permitted, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil, context.Cause(ctx)
}

// Confirm is due after each claim. If the mode has changed, it matches ErrNotSharded, and ends Await's context.
func (s *Sharded) Confirm(ctx context.Context) error {
	found, err := s.store.read(ctx)
	if err != nil {
		return err
	}
	if l := decode(found); !s.decider.isShared(l) {
		s.lose(s.reason(l))
		return fmt.Errorf("%w: this replica %s", ErrNotSharded, s.reason(l))
	}
	return nil
}

// Waiting says what this replica waits for, or "".
func (s *Sharded) Waiting() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// try reports whether to read the Lease again at once.
func (s *Sharded) try(ctx context.Context) (again bool) {
	found, err := s.store.read(ctx)
	if err != nil {
		s.fail(ctx, err)
		return false
	}
	now, seen := time.Now(), decode(found)
	if s.since.IsZero() || seen != s.seen {
		s.seen, s.since = seen, now
	}
	switch s.decider.forReplicas(seen, now.Sub(s.since), s.isOn()) {
	case stepWork:
		s.permit(ctx)
	case stepAcquire:
		return s.acquire(ctx, found)
	default:
		s.lose(s.reason(seen))
	}
	return false
}

func (s *Sharded) acquire(ctx context.Context, before *coordinationv1.Lease) (again bool) {
	err := s.store.write(ctx, s.options.acquired(before))
	if err == nil {
		s.options.Log.Info("Acquired the Lease of leader mode for the installation in Sharded mode", "lease", s.store.name())
		return true
	}
	isMissing := before == nil && apierrors.IsNotFound(err) // The namespace: no conflict, which would be tried again at once.
	if isConflict(err) && !isMissing {
		s.options.Log.V(1).Info("Another hub has written the Lease of leader mode", "reason", err.Error())
		return true
	}
	s.fail(ctx, err)
	return false
}

// fail leaves the permit: as far as this replica knows, the mode has not changed.
func (s *Sharded) fail(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.options.Log.Error(err, "Failed to read or acquire the Lease of leader mode; the replica tries again")
	}
}

func (s *Sharded) reason(l lock) string {
	switch l.holder {
	case s.decider.me:
		return fmt.Sprintf("waits because a hub in leader mode releases the Lease %s, which takes seconds: stop the hub, or this replica",
			s.store.name())
	case "":
		return fmt.Sprintf("waits until the Lease %s is missing for %s", s.store.name(), s.options.Duration)
	}
	return fmt.Sprintf("waits for the hub in leader mode %s, which holds the Lease %s: scale it down, or start this hub without "+
		"--replicas-mode=Sharded", l.holder, s.store.name())
}

func (s *Sharded) isOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil
}

func (s *Sharded) permit(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return
	}
	next := &permit{}
	next.permitted, next.end = context.WithCancelCause(context.WithoutCancel(ctx))
	s.current, s.waiting = next, ""
	close(s.changed)
	s.options.Log.Info("The installation is in Sharded mode", "lease", s.store.name())
}

func (s *Sharded) lose(why string) {
	s.mu.Lock()
	current, isNews := s.current, s.waiting != why
	if s.waiting = why; current != nil {
		s.current, s.changed = nil, make(chan struct{})
	}
	s.mu.Unlock()
	if current != nil {
		current.end(ErrNotSharded)
	}
	if isNews && why != "" {
		s.options.Log.Info("Not in Sharded mode", "reason", "this replica "+why)
	}
}
