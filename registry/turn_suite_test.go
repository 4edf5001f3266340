// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/clusterfx/clusterfx/registry"
)

// turns is a registry.Turn that begins and ends when its test says so.
type turns struct {
	root context.Context //nolint:containedctx // The parent of the contexts of turns.
	open atomic.Bool     // Check returns nil

	mu    sync.Mutex
	now   *turn
	begun chan struct{} // closed when now is set
}

type turn struct {
	lasts context.Context //nolint:containedctx // The subject of the test.
	end   context.CancelCauseFunc
	works sync.WaitGroup
}

func newTurns(t *testing.T) *turns {
	t.Helper()
	return &turns{root: context.WithoutCancel(t.Context()), begun: make(chan struct{})}
}

func (s *turns) Await(ctx context.Context) (context.Context, func(), error) {
	for ctx.Err() == nil {
		s.mu.Lock()
		now, begun := s.now, s.begun
		if now != nil {
			now.works.Add(1)
		}
		s.mu.Unlock()
		if now != nil {
			return now.lasts, now.works.Done, nil
		}
		select {
		case <-begun:
		case <-ctx.Done():
		}
	}
	return nil, nil, context.Cause(ctx)
}

// Check returns nil while the gate is open.
func (s *turns) Count() func() { return func() {} }

func (s *turns) Check() error {
	if s.open.Load() {
		return nil
	}
	return fmt.Errorf("%w: the test says so", registry.ErrStandby)
}

func (s *turns) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = &turn{}
	s.now.lasts, s.now.end = context.WithCancelCause(s.root)
	s.open.Store(true)
	close(s.begun)
}

// end ends the turn. The result is closed when its work has ended.
func (s *turns) end() <-chan struct{} {
	s.open.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.now
	s.now, s.begun = nil, make(chan struct{})
	was.end(registry.ErrStandby)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		was.works.Wait()
	}()
	return ended
}
