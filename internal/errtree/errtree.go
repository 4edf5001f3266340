// SPDX-License-Identifier: Apache-2.0

// Package errtree looks at all errors that an error wraps. The package errors stops at the first that it looks for, so it
// cannot tell whether there is another one beside it.
package errtree

import "errors"

// All reports whether an error consists of errors for which is returns true and of nothing else: either is returns true for
// it, or All for each of the errors that it wraps directly. It is false for nil and for an error that wraps none.
func All(err error, is func(error) bool) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if is(err) {
			return true
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			return all(many.Unwrap(), is)
		}
	}
	return false
}

func all(errs []error, is func(error) bool) bool {
	for _, err := range errs {
		if !All(err, is) {
			return false
		}
	}
	return len(errs) > 0
}
