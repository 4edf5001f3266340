// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"time"
)

// clock is the clock of this replica. It measures elapsed time only, and is never compared with a time that another
// replica has written.
type clock interface {
	// now returns the time, with a monotonic reading.
	now() time.Time
	// within returns a context that ends after d.
	within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

type realClock struct{}

func (realClock) now() time.Time { return time.Now() }

func (realClock) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// sleep waits for d and reports whether ctx is still active.
func sleep(ctx context.Context, c clock, d time.Duration) bool {
	end, cancel := c.within(ctx, d)
	defer cancel()
	<-end.Done()
	return ctx.Err() == nil
}
