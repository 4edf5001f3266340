// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// WithRetry returns resources that try again, at once and within the pass, what fails. Every operation
// of a CRUD resource is tried by itself; of another resource the whole of EnsureCreated or EnsureDeleted.
//
// Each call has the whole of the backoff for itself: backoff.Steps tries, three of them one second apart
// if Steps is zero. It is over at once when its context ends, or with a reconcile.TerminalError. It returns
// the last error. Keep it to a few seconds, for what fails and is there again: the object's queue, which
// comes after it, backs off for longer without keeping a worker.
func WithRetry[O client.Object](resources []Resource[O], backoff wait.Backoff) []Resource[O] {
	if backoff.Steps == 0 {
		backoff = wait.Backoff{Steps: 3, Duration: time.Second}
	}
	return wrap(resources, func(ctx context.Context, c Call[O], next func(context.Context) error) error {
		return retry(ctx, c.Operation, next, backoff)
	})
}

// retry has a backoff of its own: Step changes it.
func retry(ctx context.Context, o Operation, do func(context.Context) error, backoff wait.Backoff) error {
	for {
		err := do(ctx)
		if err == nil || backoff.Steps <= 1 || errors.Is(err, reconcile.TerminalError(nil)) {
			return err
		}
		delay := backoff.Step()
		logr.FromContextOrDiscard(ctx).V(1).Info("Trying again",
			"operation", string(o), "after", delay.String(), "error", err.Error())
		if ended := sleep(ctx, delay); ended != nil {
			return fmt.Errorf("%w; not tried again: %w", err, ended)
		}
	}
}

// sleep waits, and returns why it ended early.
func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
