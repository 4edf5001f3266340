// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kind_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// summary is the page that a run writes.
type summary struct {
	versions []string
	steps    []string
	shown    []string
}

func (s *summary) version(what, version string) {
	s.versions = append(s.versions, fmt.Sprintf("| %s | %s |", what, strings.TrimSpace(version)))
}

func (s *summary) step(name string, took time.Duration, seen string) {
	s.steps = append(s.steps, fmt.Sprintf("| %d | %s | %.1f s | %s |", len(s.steps)+1, name, took.Seconds(), seen))
}

// show records the output of a command.
func (s *summary) show(command, printed string) {
	s.shown = append(s.shown, fmt.Sprintf("    $ %s\n%s", command, indent(printed)))
}

func indent(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, "    "+line)
	}
	return strings.Join(lines, "")
}

// write writes the page, also for a failed run; the page shows the failure.
func (s *summary) write(t *testing.T, root string) {
	t.Helper()
	result := "Every step passed."
	if t.Failed() {
		result = "The last step failed."
	}
	page := strings.Join([]string{
		result, "",
		"| what | version |", "|---|---|", strings.Join(s.versions, "\n"), "",
		"| | step | time | seen |", "|---|---|---|---|", strings.Join(s.steps, "\n"), "",
		strings.Join(s.shown, "\n"),
	}, "\n")
	dir := filepath.Join(root, "dist")
	testkit.Must(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, "e2e-kind.md")
	testkit.Must(t, os.WriteFile(path, []byte(page), 0o644))
	t.Logf("%s:\n%s", path, page)
}
