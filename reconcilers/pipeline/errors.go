// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalidConfig is in the errors for unusable options or arguments.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrExecutionFailed is in the errors of passes that cannot run: no resources, an ambiguous route, or a Set.Init
	// that violates its contract.
	ErrExecutionFailed = errors.New("execution failed")
	// ErrNoResourceSet is the error of Router.Route if no set handles the object.
	ErrNoResourceSet = errors.New("no resource set handles the object")
	// ErrAmbiguousResourceSet is the error of Router.Route if several sets do, with ErrExecutionFailed, and of
	// NewRouter if the labels of sets overlap.
	ErrAmbiguousResourceSet = errors.New("several resource sets handle the object")
)

// ReasonError puts its reason and message into the conditions, and into an event when they change.
type ReasonError struct {
	Reason  string // a CamelCase word, such as QuotaExceeded
	Message string // a sentence that does not change while the problem exists
	Err     error  // the cause, or nil
}

func (e *ReasonError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Reason, e.Message)
	}
	return fmt.Sprintf("%s: %s: %v", e.Reason, e.Message, e.Err)
}

func (e *ReasonError) Unwrap() error { return e.Err }
