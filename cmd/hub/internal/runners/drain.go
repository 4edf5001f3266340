// SPDX-License-Identifier: Apache-2.0

package runners

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
)

// ErrNotDrained means that the replica holds shards after its time.
var ErrNotDrained = errors.New("the replica is not drained")

const (
	// lookPeriod is between two looks at the shards, lookWithin how long one may take.
	lookPeriod = 500 * time.Millisecond
	lookWithin = 10 * time.Second
)

// SetDrained drains a replica, or cancels that, and returns it as before, without waiting. An error for a name without
// a Lease lists those with one.
func (h *Hub) SetDrained(ctx context.Context, name string, drained bool) (Runner, error) {
	ctx, cancel := context.WithTimeout(ctx, requestsWithin)
	defer cancel()
	l, err := h.look(ctx)
	if l == nil {
		return Runner{}, err
	}
	before := l.find(name)
	if before == nil {
		return Runner{}, errors.Join(l.noSuch(name), err)
	}
	if err := replica.SetDrained(ctx, h.Cluster, client.ObjectKey{Namespace: h.Namespace, Name: name}, drained); err != nil {
		return *before, h.Cluster.Explain(err)
	}
	return *before, nil
}

// Wait says for which replica to wait.
type Wait struct {
	Name    string
	Timeout time.Duration
	// Progress gets what the replica still has, when that changes. Default: no call.
	Progress func(text string)
}

// AwaitDrained returns when no record names the replica, or with an error that matches ErrNotDrained and has the
// reason. A failed request is repeated, unless it is denied.
func (h *Hub) AwaitDrained(ctx context.Context, w Wait) error {
	over := time.NewTimer(w.Timeout)
	defer over.Stop()
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	last := ""
	for {
		problem, err := h.unfinished(ctx, w.Name)
		if err != nil || problem == "" {
			return err
		}
		if problem != last && w.Progress != nil {
			w.Progress(problem)
		}
		last = problem
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over.C:
			return fmt.Errorf("%w after %s: %s", ErrNotDrained, w.Timeout, last)
		case <-ticker.C:
		}
	}
}

// unfinished returns "" if the replica holds no shard.
func (h *Hub) unfinished(ctx context.Context, name string) (problem string, err error) {
	looking, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	l, err := h.look(looking)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case l == nil && isFinal(err):
		return "", err
	case err != nil: // A record that cannot be decoded may name the replica.
		return err.Error(), nil
	}
	found := l.find(name)
	if found == nil || found.Shards == 0 {
		return "", nil
	}
	problem = fmt.Sprintf("runner/%s holds %d of %d shards", name, found.Shards, l.Shards)
	if l.Ignored {
		problem += "; all live replicas are drained, so that the hub ignores it: start another replica, or cancel the drain of one"
	}
	return problem, nil
}

// isFinal: another request would fail, too.
func isFinal(err error) bool {
	return errors.Is(err, replica.ErrNotSharded) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}
