// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/registry"
)

// turn is when this replica runs something. It begins and ends many times.
type turn struct {
	check  func() error // returns an error when it is not this replica's turn, by the gate
	writes atomic.Int64 // writes that may be in flight

	mu      sync.Mutex
	current *tenure       // nil between two turns
	begun   chan struct{} // closed when the next one begins
}

// tenure is one time of a turn.
type tenure struct {
	lasts context.Context //nolint:containedctx // Ends with the tenure.
	end   context.CancelCauseFunc
	works sync.WaitGroup
}

var _ registry.Turn = (*turn)(nil)

func newTurn(check func() error) *turn { return &turn{check: check, begun: make(chan struct{})} }

// Await is that of registry.Turn.
func (t *turn) Await(ctx context.Context) (lasts context.Context, ended func(), err error) {
	for ctx.Err() == nil {
		t.mu.Lock()
		now, begun := t.current, t.begun
		if now != nil {
			now.works.Add(1)
		}
		t.mu.Unlock()
		if now != nil {
			return now.lasts, sync.OnceFunc(now.works.Done), nil
		}
		select {
		case <-begun:
		case <-ctx.Done():
		}
	}
	return nil, nil, context.Cause(ctx)
}

// Check is that of registry.Turn.
func (t *turn) Check() error {
	if err := t.check(); err != nil {
		return fmt.Errorf("%w: %w", registry.ErrStandby, err)
	}
	return nil
}

// Count is that of registry.Turn.
func (t *turn) Count() (answered func()) {
	t.writes.Add(1)
	return sync.OnceFunc(func() { t.writes.Add(-1) })
}

// awaitWrites returns when no write is in flight, or ctx ends.
func (t *turn) awaitWrites(ctx context.Context) error {
	for t.writes.Load() > 0 && ctx.Err() == nil {
		replica.Pause(ctx, warmEvery)
	}
	return context.Cause(ctx)
}

// begin does nothing during a turn.
func (t *turn) begin(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil {
		return
	}
	now := &tenure{}
	now.lasts, now.end = context.WithCancelCause(context.WithoutCancel(ctx))
	t.current = now
	close(t.begun)
}

// end ends the turn and returns when all that works has ended, or takes too long: it reports which.
func (t *turn) end(ctx context.Context, within time.Duration) (allEnded bool) {
	t.mu.Lock()
	before := t.current
	if before == nil {
		t.mu.Unlock()
		return true
	}
	t.current, t.begun = nil, make(chan struct{})
	t.mu.Unlock()
	before.end(registry.ErrStandby)
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		before.works.Wait()
	}()
	patience := time.NewTimer(within)
	defer patience.Stop()
	select {
	case <-idle:
		return true
	case <-patience.C:
	case <-ctx.Done():
	}
	return false
}
