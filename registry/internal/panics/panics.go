// SPDX-License-Identifier: Apache-2.0

// Package panics turns panics into errors, so that a panic in the code of a module ends neither its goroutine nor the
// process.
package panics

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"
)

// Error is a recovered panic. Its text is the value; the stack is for the log.
type Error struct {
	Value any
	Stack []byte
}

// New returns the error of a recovered value, in the goroutine of the panic.
func New(value any) *Error { return &Error{Value: value, Stack: debug.Stack()} }

// Error returns the value of the panic.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// WithStack adds the stack to a logger for the error of a panic.
func WithStack(log logr.Logger, err error) logr.Logger {
	if panicked, ok := errors.AsType[*Error](err); ok {
		return log.WithValues("stack", string(panicked.Stack))
	}
	return log
}

// Catch calls f and returns its error. It returns an *Error if f panics.
func Catch(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = New(value)
		}
	}()
	return f()
}
