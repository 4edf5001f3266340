// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"errors"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

// A dev writes words to what is no terminal.
func TestReport(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	terminal := output.NewTerminal(nil, &out, &out)
	terminal.Say(output.Rest, "one")
	if err := report(terminal, errors.New("two")); !errors.Is(err, errFailed) {
		t.Errorf("report returns %v", err)
	}
	if n, err := (indented{terminal}).Write([]byte("three\nfour\n")); n != 11 || err != nil {
		t.Errorf("Write returns %d, %v", n, err)
	}
	terminal.Done("five")
	if got, want := out.String(), "> one\nerror: two\n  three\n  four\nok five\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
