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
	// ErrInvalidConfig is in the errors of constructors that were given something unusable.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrLocked is in the error of a Guard or an UpdateCondition that somebody else's task is in the way of.
	// Nothing was done. The error is a LockedError.
	ErrLocked = errors.New("the lock is held")
	// ErrStale is in the error of a Guard or an UpdateCondition that was decided on with an object which has
	// changed since. Nothing was done. The next reconcile sees the object as it is.
	ErrStale = errors.New("the object has changed since it was read")
	// ErrLockLost is the cause of the end of a task's context when the lock could not be renewed in time, and
	// in the error of a Guard whose task somebody else has taken over. The attempt is theirs now.
	ErrLockLost = errors.New("the lock is lost")

	// errAmbiguousProvider: several factories handle one object for the same condition type.
	errAmbiguousProvider = errors.New("several providers handle the object")
	// errNoProvider: an object that is being deleted has the finalizer, and no factory handles it any more, or none
	// does for a condition that something was done for. The finalizer stays.
	errNoProvider = errors.New("no provider handles the object")
	errUnchanged  = errors.New("nothing to write")
	errPanicked   = errors.New("the task panicked")
)

// LockedError says who holds a lock and when to ask again. It matches ErrLocked.
type LockedError struct {
	// Holder is the process with the task.
	Holder string
	// RetryAfter is how long the lock is the holder's at most if it does not renew it.
	RetryAfter time.Duration
}

// Error names the holder.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%v by %s, for another %v if it is not renewed", ErrLocked, e.Holder, e.RetryAfter.Round(time.Millisecond))
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// Class says how to go on after an error of a task or a provider.
type Class string

const (
	// Retryable errors are tried again with backoff. A task keeps its attempt, so it may find what it left.
	Retryable Class = "Retryable"
	// Terminal errors are not tried again before the object changes: somebody has to do something. With one a task
	// says that the external system has refused the change, so the attempt ends; but not if it was Recovering, for
	// what became of the run before nobody has said. While an object is being deleted they are tried again with
	// backoff, for the object would stay forever.
	Terminal Class = "Terminal"
	// Conflict errors come from knowing an older state. They are tried again a second later without a word.
	Conflict Class = "Conflict"
)

// classify is how errors are told apart without Options.Classify.
func classify(err error) Class {
	switch {
	case apierrors.IsConflict(err), errors.Is(err, ErrStale):
		return Conflict
	case errors.Is(err, reconcile.TerminalError(nil)):
		return Terminal
	}
	return Retryable
}
