// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (c *Controller[O]) run(ctx context.Context, r *run, task Task) (Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer cancel(nil)
	renewing.Go(func() { cancel(c.keep(ctx, *r)) })
	return task(ctx, r.attempt)
}

func (c *Controller[O]) keep(ctx context.Context, r run) error {
	for {
		wait := c.host.options.TTL/3 - c.host.clock.now().Sub(r.since)
		if !sleep(ctx, c.host.clock, wait) {
			return nil
		}
		if err := c.renew(ctx, &r); err != nil {
			return err
		}
	}
}

// renew tries as long as the last extension is valid. Its error means that the lock is lost.
func (c *Controller[O]) renew(ctx context.Context, r *run) error {
	patience := c.host.options.patience()
	ctx, cancel := c.host.clock.within(ctx, patience-c.host.clock.now().Sub(r.since))
	defer cancel()
	for {
		var sent time.Time
		_, err := c.change(ctx, func(s *snapshot[O]) error {
			if !r.owns(s.entry) {
				return ErrLockLost
			}
			sent = c.host.clock.now()
			s.stamp(sent, false)
			return nil
		})
		switch {
		case err == nil:
			r.since = sent
			return nil
		case errors.Is(err, ErrLockLost), errors.Is(err, ErrStale), apierrors.IsNotFound(err):
			return fmt.Errorf("%w: %w", ErrLockLost, err)
		}
		if !sleep(ctx, c.host.clock, patience/20) {
			return fmt.Errorf("%w: no renewal succeeded for %v: %w", ErrLockLost, patience, err)
		}
	}
}
