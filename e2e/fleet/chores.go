// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"
)

// chorePeriod is how long a chore that failed waits until it is tried again.
const chorePeriod = time.Second

// chores are delayed tasks of a cluster; the zero value is ready for use.
type chores struct {
	running sync.WaitGroup
	// mu protects cancel, and is held only to append to it or to take it.
	mu     sync.Mutex
	cancel []context.CancelFunc
}

// add does something after a delay, again and again until it succeeds or the cluster is closed. Of
// the context it takes the values, not the end.
func (c *chores) add(ctx context.Context, delay time.Duration, do func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.mu.Lock()
	c.cancel = append(c.cancel, cancel)
	c.mu.Unlock()
	c.running.Go(func() {
		defer cancel()
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
			// A failure needs no report: the cluster is closed.
			_ = poll(ctx, chorePeriod, func() bool { return do(ctx) == nil })
		}
	})
}

// stop cancels the remaining tasks and waits for them.
func (c *chores) stop() {
	c.mu.Lock()
	for _, cancel := range c.cancel {
		cancel()
	}
	c.mu.Unlock()
	c.running.Wait()
}
