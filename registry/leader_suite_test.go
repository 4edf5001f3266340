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

// leader is a registry.Leader that leads when its test says so.
type leader struct {
	root context.Context //nolint:containedctx // The parent of the contexts of leaderships.
	open atomic.Bool     // Check returns nil

	mu      sync.Mutex
	now     *leadership
	elected chan struct{} // closed when now is set
}

type leadership struct {
	leads context.Context //nolint:containedctx // The subject of the test.
	end   context.CancelCauseFunc
	works sync.WaitGroup
}

func newLeader(t *testing.T) *leader {
	t.Helper()
	return &leader{root: context.WithoutCancel(t.Context()), elected: make(chan struct{})}
}

func (l *leader) Await(ctx context.Context) (context.Context, func(), error) {
	for ctx.Err() == nil {
		l.mu.Lock()
		now, elected := l.now, l.elected
		if now != nil {
			now.works.Add(1)
		}
		l.mu.Unlock()
		if now != nil {
			return now.leads, now.works.Done, nil
		}
		select {
		case <-elected:
		case <-ctx.Done():
		}
	}
	return nil, nil, context.Cause(ctx)
}

// Check returns nil while the gate is open.
func (l *leader) Check() error {
	if l.open.Load() {
		return nil
	}
	return fmt.Errorf("%w: the test says so", registry.ErrNotLeader)
}

func (l *leader) lead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = &leadership{}
	l.now.leads, l.now.end = context.WithCancelCause(l.root)
	l.open.Store(true)
	close(l.elected)
}

// depose ends the leadership. The result is closed when its work has ended.
func (l *leader) depose() <-chan struct{} {
	l.open.Store(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.now
	l.now, l.elected = nil, make(chan struct{})
	was.end(registry.ErrNotLeader)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		was.works.Wait()
	}()
	return ended
}
