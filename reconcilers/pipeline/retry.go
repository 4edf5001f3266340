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

	"github.com/clusterfx/clusterfx/registry/deletes"
)

// WithRetry returns resources that retry a failed operation within the pass: each operation of a CRUD resource
// separately, otherwise the whole of EnsureCreated or EnsureDeleted.
//
// Each call has backoff.Steps tries, or three, one second apart, if Steps is zero. Retries end with the context, a
// reconcile.TerminalError or a held delete (deletes.ErrHeld). The last error is returned. Use a few seconds at most:
// the controller's queue backs off without occupying a worker.
func WithRetry[O client.Object](resources []Resource[O], backoff wait.Backoff) []Resource[O] {
	if backoff.Steps == 0 {
		backoff = wait.Backoff{Steps: 3, Duration: time.Second}
	}
	return wrap(resources, func(ctx context.Context, c Call[O], next func(context.Context) error) error {
		return retry(ctx, c.Operation, next, backoff)
	})
}

// retry copies the backoff, because Step changes it.
func retry(ctx context.Context, o Operation, do func(context.Context) error, backoff wait.Backoff) error {
	for {
		err := do(ctx)
		if err == nil || backoff.Steps <= 1 || errors.Is(err, reconcile.TerminalError(nil)) || errors.Is(err, deletes.ErrHeld) {
			return err
		}
		delay := backoff.Step()
		logr.FromContextOrDiscard(ctx).V(1).Info("Trying again",
			"operation", string(o), "after", delay.String(), "error", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		if ended := ctx.Err(); ended != nil {
			return fmt.Errorf("%w; not tried again: %w", err, ended)
		}
	}
}
