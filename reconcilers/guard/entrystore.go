// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

type entryStore[O client.Object] interface {
	view(ctx context.Context, obj O) (entry, error)
	read(ctx context.Context) (snapshot[O], error)
	// write returns the object with the new entry. The error is a conflict, with nothing written, if anything has
	// changed since the snapshot.
	write(ctx context.Context, s snapshot[O]) (O, error)
	// discard returns a function that removes the entry of a deleted object, unless it is part of it. The error says
	// why the lock must stay.
	discard(ctx context.Context, may func(lock.State) error) (remove func(context.Context) error, err error)
}

type snapshot[O client.Object] struct {
	object O
	entry
	lease *coordinationv1.Lease // the Lease of the entry, if it exists
}

// gone is for an object that a live read has not found and the cache still shows.
func gone(err error) error {
	if apierrors.IsNotFound(err) && !errors.Is(err, ErrStale) {
		return fmt.Errorf("%w: it has been deleted: %w", ErrStale, err)
	}
	return err
}

const maxConflicts = 20

// change reads the entry, has f change it, and writes it, again after each conflict: f may be called several times,
// and decides on each snapshot. An error of f prevents the write; errUnchanged is no error of change.
func (c *Controller[O]) change(ctx context.Context, f func(*snapshot[O]) error) (snapshot[O], error) {
	for conflicts := 0; ; conflicts++ {
		s, err := c.store.read(ctx)
		if err != nil {
			return s, fmt.Errorf("read the lock: %w", gone(err))
		}
		if s.object.GetUID() != c.key.uid {
			return s, fmt.Errorf("%w: another object has the same name now", ErrStale)
		}
		switch err := f(&s); {
		case errors.Is(err, errUnchanged):
			return s, nil
		case err != nil:
			return s, err
		}
		s.lock.Revision++
		s.object, err = c.store.write(ctx, s)
		if err == nil {
			return s, nil
		}
		if !apierrors.IsConflict(err) || conflicts == maxConflicts {
			return s, fmt.Errorf("write the lock: %w", err)
		}
	}
}
