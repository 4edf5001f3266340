// SPDX-License-Identifier: Apache-2.0

package access

import "strings"

// WithAdvice returns a message followed by advice, as one sentence.
func WithAdvice(message, advice string) string {
	if advice == "" {
		return message
	}
	return strings.TrimRight(message, ". ") + "; " + advice
}

type advisedError struct {
	error
	advice string
}

func advised(err error, advice string) error { return &advisedError{err, advice} }

func (e *advisedError) Error() string { return WithAdvice(e.error.Error(), e.advice) }

func (e *advisedError) Unwrap() error { return e.error }
