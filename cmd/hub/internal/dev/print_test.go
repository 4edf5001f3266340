// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestPrinter_Styles(t *testing.T) {
	t.Parallel()
	for s, want := range map[style]string{
		plain: "> one\nok two\n> three\nerror: four\nfive\n",
		fancy: "\x1b[36m►\x1b[0m one\n\x1b[32m✔\x1b[0m two\n\x1b[36m◎\x1b[0m three\n\x1b[31m✗\x1b[0m four\nfive\n",
	} {
		var out strings.Builder
		p := &printer{w: &out, style: s}
		p.step("one")
		p.done("%s", "two")
		p.rest("three")
		testkit.ErrorIs(t, p.report(errors.New("four")), ErrFailed, "report")
		p.text("five")
		testkit.Equal(t, out.String(), want, s)
	}
}

func TestNewPrinter_PlainWithoutTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer func() { _ = file.Close() }()
	testkit.Equal(t, newPrinter(file).style, plain, "the style for a file")
}

func TestIndented(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if n, err := (indented{&out}).Write([]byte("one\ntwo\n")); n != 8 || err != nil {
		t.Errorf("Write returns %d, %v", n, err)
	}
	if got := out.String(); got != "  one\n  two\n" {
		t.Errorf("got %q", got)
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	if got := number(1, "Node") + ", " + number(2, "Node"); got != "1 Node, 2 Nodes" {
		t.Errorf("got %s", got)
	}
}
