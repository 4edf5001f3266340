// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"runtime/debug"
)

// panicError is a panic turned into an error. Its text is the value of the panic; the stack is
// for the log.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// safely calls f and returns its panic as an error.
func safely(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return f()
}
