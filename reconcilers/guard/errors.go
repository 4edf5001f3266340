// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	// ErrInvalidConfig is in the errors for unusable options or arguments.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrLocked means that another task holds the lock. Nothing was done. The error is a LockedError.
	ErrLocked = errors.New("the lock is held")
	// ErrStale means that the object has changed since it was read. Nothing was done; the next reconcile decides again.
	ErrStale = errors.New("the object has changed since it was read")
	// ErrLockLost is the cause of a task's context when the lock could not be renewed in time. It is also the error
	// of a Guard whose lock another process has taken, with the attempt.
	ErrLockLost = errors.New("the lock is lost")

	// errAmbiguousProvider: several factories handle one object for one condition type.
	errAmbiguousProvider = errors.New("several providers handle the object")
	// errNoProvider: no factory handles a deleted object with the finalizer, or a condition that a provider worked
	// on.
	errNoProvider = errors.New("no provider handles the object")
	errUnchanged  = errors.New("nothing to write")
	errPanicked   = errors.New("the task panicked")
)

// LockedError names who holds the lock, and when to try again. It matches ErrLocked.
type LockedError struct {
	Holder     string
	RetryAfter time.Duration // when the lock expires at the latest, unless it is renewed
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%v by %s, for another %v if it is not renewed", ErrLocked, e.Holder, e.RetryAfter.Round(time.Millisecond))
}

func (e *LockedError) Unwrap() error { return ErrLocked }

// Class decides what follows an error of a task or a provider.
type Class string

const (
	// Retryable errors are tried again with backoff, in the same attempt.
	Retryable Class = "Retryable"
	// Terminal errors are not retried until the object changes, except during its deletion. From a task it means that
	// the external system has refused the change: the attempt ends, unless it was Recovering.
	Terminal Class = "Terminal"
	// Conflict errors come from an outdated view. They are retried a second later, without an event.
	Conflict Class = "Conflict"
)

func classify(err error) Class {
	switch {
	case apierrors.IsConflict(err), errors.Is(err, ErrStale):
		return Conflict
	case errors.Is(err, reconcile.TerminalError(nil)):
		return Terminal
	}
	return Retryable
}
