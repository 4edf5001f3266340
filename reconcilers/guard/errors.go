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
	// ErrInvalidConfig is in the errors of constructors for unusable options or arguments.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrLocked is in the error of a Guard or an UpdateCondition while another task holds the lock. Nothing was done. The
	// error is a LockedError.
	ErrLocked = errors.New("the lock is held")
	// ErrStale is in the error of a Guard or an UpdateCondition if the object has changed since it was read. Nothing was
	// done. The next reconcile decides on the new state.
	ErrStale = errors.New("the object has changed since it was read")
	// ErrLockLost is the cause of the end of a task's context when the lock could not be renewed in time. It is also in
	// the error of a Guard whose lock another process has taken; the attempt belongs to that process.
	ErrLockLost = errors.New("the lock is lost")

	// errAmbiguousProvider: several factories handle one object for the same condition type.
	errAmbiguousProvider = errors.New("several providers handle the object")
	// errNoProvider: an object that is being deleted has the finalizer, and no factory handles the object, or a condition
	// that a provider has worked on. The finalizer stays.
	errNoProvider = errors.New("no provider handles the object")
	errUnchanged  = errors.New("nothing to write")
	errPanicked   = errors.New("the task panicked")
)

// LockedError names the holder of a lock and the time after which to try again. It matches ErrLocked.
type LockedError struct {
	// Holder is the process that runs the task.
	Holder string
	// RetryAfter is the longest time until the lock expires if the holder does not renew it.
	RetryAfter time.Duration
}

// Error names the holder.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%v by %s, for another %v if it is not renewed", ErrLocked, e.Holder, e.RetryAfter.Round(time.Millisecond))
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// Class determines the reaction to an error of a task or a provider.
type Class string

const (
	// Retryable errors are tried again with backoff. A task keeps its attempt, so its next run can find the resources of
	// this run.
	Retryable Class = "Retryable"
	// Terminal errors are not retried until the object changes: they need a correction. With a Terminal error a task
	// reports that the external system has refused the change, so the attempt ends; but not if it was Recovering, because
	// the result of the earlier run is unknown. While an object is being deleted they are retried with backoff, because
	// otherwise the object would stay forever.
	Terminal Class = "Terminal"
	// Conflict errors result from an outdated view of the object. They are retried a second later, without an event.
	Conflict Class = "Conflict"
)

// classify is the default of Options.Classify.
func classify(err error) Class {
	switch {
	case apierrors.IsConflict(err), errors.Is(err, ErrStale):
		return Conflict
	case errors.Is(err, reconcile.TerminalError(nil)):
		return Terminal
	}
	return Retryable
}
