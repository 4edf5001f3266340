// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// openTerminal returns both ends of a terminal: the person's end and the program's end.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	connection, err := person.SyscallConn()
	must(t, err)
	number := 0
	must(t, connection.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

func TestTerminal_SymbolsOnATerminalOnly(t *testing.T) {
	for _, test := range []struct {
		name, noColor, want string
	}{
		{"symbols", "", "\x1b[32m✔\x1b[0m well\r\n└─ below\r\n"},
		{"NO_COLOR", "1", "ok well\r\n`- below\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("NO_COLOR", test.noColor)
			t.Setenv("TERM", "xterm")
			person, program := openTerminal(t)
			tree := &output.Node{Mark: output.OK, Text: "well"}
			tree.Add(output.Plain, "below")
			must(t, output.NewTerminal(program, program, program).Tree(tree))
			got := make([]byte, len(test.want))
			testkit.Must(t, testkit.Err(io.ReadFull(person, got)))
			if string(got) != test.want {
				t.Errorf("the terminal shows %q, want %q", got, test.want)
			}
		})
	}
}

func TestTerminal_Ask(t *testing.T) {
	for answer, want := range map[string]string{"y\n": "", "Yes\n": "", "no\n": "nothing was changed", "\n": "nothing was changed"} {
		person, program := openTerminal(t)
		testkit.Must(t, testkit.Err(person.WriteString(answer)))
		var asked strings.Builder
		err := output.NewTerminal(program, &asked, &asked).Ask(t.Context(), "Really?")
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
			t.Errorf("for the input %q, Ask returns %v", answer, err)
		}
		if asked.String() != "Really? [y/N] " {
			t.Errorf("the question is %q", asked.String())
		}
	}
	_, program := openTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.ErrorIs(t, output.NewTerminal(program, io.Discard, io.Discard).Ask(ctx, "Really?"), context.Canceled, "after Ctrl-C, Ask")
	file, err := os.Open(os.DevNull)
	must(t, err)
	defer func() { _ = file.Close() }()
	testkit.ErrorHas(t, output.NewTerminal(file, file, file).Ask(t.Context(), "Really?"), "confirm it with --yes", "without a terminal, Ask")
}
