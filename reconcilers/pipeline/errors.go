// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalidConfig is in the errors of constructors that were given something unusable.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrExecutionFailed is in the errors of passes that cannot be run as they are: a list without
	// resources, an ambiguous route, a Set.Init that breaks its promises.
	ErrExecutionFailed = errors.New("execution failed")
	// ErrNoResourceSet is in the error of Router.Route for an object that no set handles.
	ErrNoResourceSet = errors.New("no resource set handles the object")
	// ErrAmbiguousResourceSet is in the error of Router.Route for an object that several sets handle,
	// together with ErrExecutionFailed, and in that of NewRouter if several sets are sure to.
	ErrAmbiguousResourceSet = errors.New("several resource sets handle the object")
)

// ReasonError is an error with words for people. Its reason and message go into the conditions in place
// of ReasonFailed and the text of Err, and into an event when the conditions change.
type ReasonError struct {
	// Reason is a CamelCase word, such as QuotaExceeded.
	Reason string
	// Message is a sentence that stays the same as long as the problem does.
	Message string
	// Err is what happened. It may be nil.
	Err error
}

// Error returns all there is to say.
func (e *ReasonError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Reason, e.Message)
	}
	return fmt.Sprintf("%s: %s: %v", e.Reason, e.Message, e.Err)
}

// Unwrap returns Err.
func (e *ReasonError) Unwrap() error { return e.Err }
