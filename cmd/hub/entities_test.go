// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The commands of docs/entities.md print what the page says: from nothing to a tenant in a remote, with its status from there.
func TestDev_EntitiesPage(t *testing.T) {
	t.Parallel()
	repository := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(repository, "docs", "entities.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps := stepsOf(string(page), "## From nothing to a tenant")
	if len(steps) != 5 {
		t.Fatalf("the page has %d commands, want 5", len(steps))
	}
	dir := t.TempDir()
	examples, err := filepath.Abs(filepath.Join(repository, "examples"))
	if err == nil {
		err = os.Symlink(examples, filepath.Join(dir, "examples"))
	}
	if err != nil {
		t.Fatal(err)
	}
	arguments := strings.Fields(strings.TrimPrefix(steps[0].command, "go run ./cmd/hub"))
	p := startIn(t, dir, []string{asHub + "=" + asStock}, arguments[:len(arguments)-1]...) // but for --detach
	p.expect(&p.stderr, "> running; Ctrl-C stops everything\n")
	for _, one := range steps[1:] {
		if !strings.HasPrefix(one.command, "export ") {
			expectOutput(t, dir, one)
		}
	}
	p.signal(syscall.SIGINT)
	p.expectExit(0)
}
