// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// opening is once, before the first reconcile: it notes the Clusters (memory), and reads their Secrets (readSecrets).
type opening struct {
	turn chan struct{} // capacity 1: held by the reconcile that does it, while the others wait
	over atomic.Bool
}

// open does it, or waits until another reconcile has done it.
func (r *reconciler) open(ctx context.Context) error {
	if r.opening.over.Load() {
		return nil
	}
	select {
	case r.opening.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.opening.turn }()
	if r.opening.over.Load() {
		return nil
	}
	all, err := r.cachedClusters(ctx)
	if err != nil {
		return fmt.Errorf("list the Clusters: %w", err)
	}
	r.memory.begin(all, time.Now())
	r.readSecrets(ctx, all)
	r.opening.over.Store(true)
	return nil
}
