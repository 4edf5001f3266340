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

// entryStore stores the entry of one condition of one object.
type entryStore[O client.Object] interface {
	// view returns the entry of an object that was read, from a cache or not.
	view(ctx context.Context, obj O) (entry, error)
	// read reads the object and the entry from the API server.
	read(ctx context.Context) (snapshot[O], error)
	// write replaces the entry, and returns the object with it. If anything has changed since the snapshot
	// was read the error is a conflict, and nothing was written.
	write(ctx context.Context, s snapshot[O]) (O, error)
	// discard returns a function that removes the entry after the object has been deleted, if the entry is not part of
	// the object. The error is the reason why the lock must stay.
	discard(ctx context.Context, may func(lock.Record) error) (remove func(context.Context) error, err error)
}

// snapshot is an object and an entry at one time.
type snapshot[O client.Object] struct {
	object O
	entry
	lease *coordinationv1.Lease // the Lease of the entry, if it exists
}

// gone returns ErrStale for an object that a live read has not found: the object has been deleted, and the cache does
// not show it yet.
func gone(err error) error {
	if apierrors.IsNotFound(err) && !errors.Is(err, ErrStale) {
		return fmt.Errorf("%w: it has been deleted: %w", ErrStale, err)
	}
	return err
}

// maxConflicts bounds the number of retries of a change after conflicts.
const maxConflicts = 20

// change reads the entry, has f change it, and writes it. It starts again when anything has changed in between, so f may
// be called several times, and decides on each new snapshot. If f returns an error, nothing is written; for errUnchanged
// change returns no error.
//
// In this way a write by another client, for example to another condition of the object, does not make the change fail,
// and a decision is never written to a state other than the state it was made on.
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
