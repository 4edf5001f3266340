// SPDX-License-Identifier: Apache-2.0

package access

import "strings"

// WithAdvice returns a message followed by advice. A message that is a sentence loses its period: the result is one
// sentence.
func WithAdvice(message, advice string) string {
	if advice == "" {
		return message
	}
	return strings.TrimRight(message, ". ") + "; " + advice
}

// advisedError is an error with advice.
type advisedError struct {
	error
	advice string
}

// advised returns an error with advice added.
func advised(err error, advice string) error { return &advisedError{err, advice} }

// Error returns the message of the error and the advice.
func (e *advisedError) Error() string { return WithAdvice(e.error.Error(), e.advice) }

// Unwrap returns the error without the advice.
func (e *advisedError) Unwrap() error { return e.error }
