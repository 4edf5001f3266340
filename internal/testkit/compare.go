// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// Reporter is what a test, a benchmark and rapid have in common.
type Reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// Equal fails the test unless got is want, as cmp compares them. about says what they are.
func Equal[T any](r Reporter, got, want T, about ...any) {
	r.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("%s(-want +got):\n%s", text(about), diff)
	}
}

// ErrorIs fails the test unless errors.Is finds want in got.
func ErrorIs(r Reporter, got, want error, about ...any) {
	r.Helper()
	if !errors.Is(got, want) {
		r.Errorf("%sgot error %v, want %v", text(about), got, want)
	}
}

// NoError fails the test, which goes on, if there is an error.
func NoError(r Reporter, got error, about ...any) {
	r.Helper()
	if got != nil {
		r.Errorf("%sgot error %v", text(about), got)
	}
}

// Fails fails the test unless there is an error.
func Fails(r Reporter, got error, about ...any) {
	r.Helper()
	if got == nil {
		r.Errorf("%sgot no error", text(about))
	}
}

// ErrorHas fails the test unless the text of an error contains want.
func ErrorHas(r Reporter, got error, want string, about ...any) {
	r.Helper()
	if got == nil || !strings.Contains(got.Error(), want) {
		r.Errorf("%sgot error %.1000v, want one with %q", text(about), got, want)
	}
}

// Has fails the test unless got contains want.
func Has(r Reporter, got, want string, about ...any) {
	r.Helper()
	if !strings.Contains(got, want) {
		r.Errorf("%sgot %q, want a text with %q", text(about), got, want)
	}
}

// Err returns the error of a call with two results.
func Err[T any](_ T, err error) error { return err }

func text(about []any) string {
	if len(about) == 0 {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintln(about...), "\n") + ": "
}
