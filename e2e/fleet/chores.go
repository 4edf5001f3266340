// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"
)

// chorePeriod is between tries.
const chorePeriod = time.Second

// chores are delayed tasks; the zero value is ready.
type chores struct {
	running sync.WaitGroup
	// mu is held only to append to cancel or take it.
	mu     sync.Mutex
	cancel []context.CancelFunc
}

// add does something after a delay until it succeeds or the cluster is closed, with the context's values, not its end.
func (c *chores) add(ctx context.Context, delay time.Duration, do func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.mu.Lock()
	c.cancel = append(c.cancel, cancel)
	c.mu.Unlock()
	c.running.Go(func() {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-time.After(delay):
			// A failure needs no report: the cluster is closed.
			_ = poll(ctx, chorePeriod, func() bool { return do(ctx) == nil })
		}
	})
}

func (c *chores) stop() {
	c.mu.Lock()
	for _, cancel := range c.cancel {
		cancel()
	}
	c.mu.Unlock()
	c.running.Wait()
}
