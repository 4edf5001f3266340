// SPDX-License-Identifier: Apache-2.0

// Package errtree looks at all errors that an error wraps; errors.Is stops at the first, and cannot tell whether
// there is another beside it.
package errtree

import "errors"

// All reports whether is returns true for err, or All does for each error that it wraps directly. It is false for
// nil.
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
