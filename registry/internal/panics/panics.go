// SPDX-License-Identifier: Apache-2.0

// Package panics turns panics into errors, so that a panic in the code of a module has an owner and ends neither its
// goroutine nor the process.
package panics

import (
	"fmt"
	"runtime/debug"
)

// Error is a recovered panic. Its message is the value of the panic; the stack is for the log.
type Error struct {
	// Value is the value that recover returned.
	Value any
	// Stack is the stack of the goroutine at the panic.
	Stack []byte
}

// New returns the error of a value that recover returned in the calling goroutine.
func New(value any) *Error { return &Error{Value: value, Stack: debug.Stack()} }

// Error returns the value of the panic.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Catch calls f and returns its error. It returns an *Error if f panics.
func Catch(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = New(value)
		}
	}()
	return f()
}
