// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalidConfig is in the errors of constructors for unusable options or arguments.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrExecutionFailed is in the errors of passes that cannot run: because of a list without resources, an ambiguous
	// route, or a Set.Init that violates its contract.
	ErrExecutionFailed = errors.New("execution failed")
	// ErrNoResourceSet is in the error of Router.Route for an object that no set handles.
	ErrNoResourceSet = errors.New("no resource set handles the object")
	// ErrAmbiguousResourceSet is in the error of Router.Route for an object that several sets handle, together with
	// ErrExecutionFailed, and in the error of NewRouter if the labels of several sets overlap.
	ErrAmbiguousResourceSet = errors.New("several resource sets handle the object")
)

// ReasonError is an error with a reason and a message for people. Its reason and message go into the conditions in place
// of ReasonFailed and the text of Err, and into an event when the conditions change.
type ReasonError struct {
	// Reason is a CamelCase word, such as QuotaExceeded.
	Reason string
	// Message is a sentence that does not change as long as the problem exists.
	Message string
	// Err is the cause. It may be nil.
	Err error
}

// Error returns the reason, the message and the cause.
func (e *ReasonError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Reason, e.Message)
	}
	return fmt.Sprintf("%s: %s: %v", e.Reason, e.Message, e.Err)
}

// Unwrap returns Err.
func (e *ReasonError) Unwrap() error { return e.Err }
