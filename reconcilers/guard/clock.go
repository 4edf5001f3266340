// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"time"
)

type clock interface {
	// now has a monotonic reading.
	now() time.Time
	within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

type realClock struct{}

func (realClock) now() time.Time { return time.Now() }

func (realClock) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

func sleep(ctx context.Context, c clock, d time.Duration) bool {
	end, cancel := c.within(ctx, d)
	defer cancel()
	<-end.Done()
	return ctx.Err() == nil
}
