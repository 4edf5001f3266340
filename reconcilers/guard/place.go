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

// place is where the entry of one condition of one object is kept.
type place[O client.Object] interface {
	// view returns the entry that belongs to an object as it was read, from a cache or not.
	view(ctx context.Context, obj O) (entry, error)
	// read returns the object and the entry as the API server has them.
	read(ctx context.Context) (snapshot[O], error)
	// write replaces the entry, and returns the object with it. If anything has changed since the snapshot
	// was read the error is a conflict, and nothing was written.
	write(ctx context.Context, s snapshot[O]) (O, error)
	// discard returns what removes the entry when the object has gone, if it would stay behind then. The error says
	// why the lock, as it is, must stay.
	discard(ctx context.Context, may func(lock.Record) error) (remove func(context.Context) error, err error)
}

// snapshot is an object and an entry as they were at one time.
type snapshot[O client.Object] struct {
	object O
	entry
	lease *coordinationv1.Lease // where the entry is, if in a Lease that is there
}

// gone returns ErrStale for an object that a live read has not found: it has changed since it was read. It may have been
// deleted in good order, and the cache may not know yet.
func gone(err error) error {
	if apierrors.IsNotFound(err) && !errors.Is(err, ErrStale) {
		return fmt.Errorf("%w: it has gone: %w", ErrStale, err)
	}
	return err
}

// maxConflicts bounds how often a change is begun anew because somebody else was faster.
const maxConflicts = 20

// change reads the entry, has f change it, and writes it. It begins anew when anything has changed in between,
// so f may be called several times, and decides each time on what it is given. If f returns an error nothing is
// written; errUnchanged is no error of change.
//
// This is how a write of somebody else, of another condition of the object for example, is no reason to fail,
// and yet no decision is ever written that was made on another state.
func (c *Controller[O]) change(ctx context.Context, f func(*snapshot[O]) error) (snapshot[O], error) {
	for conflicts := 0; ; conflicts++ {
		s, err := c.place.read(ctx)
		if err != nil {
			return s, fmt.Errorf("read the lock: %w", gone(err))
		}
		if s.object.GetUID() != c.key.uid {
			return s, fmt.Errorf("%w: there is another one of its name now", ErrStale)
		}
		switch err := f(&s); {
		case errors.Is(err, errUnchanged):
			return s, nil
		case err != nil:
			return s, err
		}
		s.lock.Revision++
		s.object, err = c.place.write(ctx, s)
		if err == nil {
			return s, nil
		}
		if !apierrors.IsConflict(err) || conflicts == maxConflicts {
			return s, fmt.Errorf("write the lock: %w", err)
		}
	}
}
