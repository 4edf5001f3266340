// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"errors"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

// A dev in the background reports as the terminal of the foreground shows it, and in words once it writes to the log.
func TestReport(t *testing.T) {
	t.Parallel()
	for fancy, want := range map[bool]string{
		false: "> one\nerror: two\n  three\n  four\n",
		true:  "\x1b[36m◎\x1b[0m one\n\x1b[31m✗\x1b[0m two\n  three\n  four\n",
	} {
		var out, log strings.Builder
		terminal := output.NewPipes(&out, &out, fancy)
		terminal.Say(output.Rest(), "one")
		if err := report(terminal, errors.New("two")); !errors.Is(err, ErrFailed) {
			t.Errorf("report returns %v", err)
		}
		if n, err := (indented{terminal}).Write([]byte("three\nfour\n")); n != 11 || err != nil {
			t.Errorf("Write returns %d, %v", n, err)
		}
		if got := out.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		terminal.Redirect(&log)
		terminal.Done("five")
		if got := log.String(); got != "ok five\n" {
			t.Errorf("the log has %q", got)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	if got := number(1, "Node") + ", " + number(2, "Node"); got != "1 Node, 2 Nodes" {
		t.Errorf("got %s", got)
	}
}
