// SPDX-License-Identifier: Apache-2.0

package versions_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// results are the names of what failed, by the versions of hub and remote.
type results map[string]map[string][]string

// table has a row for each version of a remote, and a column for each version of a hub.
func (r results) table(hubs []string) string {
	head, rule := "| remote |", "|---|"
	for _, hub := range hubs {
		head, rule = head+" hub "+hub+" |", rule+"---|"
	}
	rows := []string{head, rule}
	for _, remote := range fleet.Versions() {
		row := "| " + remote + " |"
		for _, hub := range hubs {
			row += " " + r.cell(hub, remote) + " |"
		}
		rows = append(rows, row)
	}
	return strings.Join(rows, "\n")
}

func (r results) cell(hub, remote string) string {
	switch failed := r[hub][remote]; {
	case !fleet.HasVersion(remote):
		return "not run"
	case r[hub] == nil:
		return "stopped"
	case len(failed) > 0:
		return "without " + strings.Join(failed, ", ")
	}
	return "all"
}

const begin, end = "<!-- versions -->\n", "<!-- /versions -->"

// write puts the table into the page.
func (r results) write(hubs []string) error {
	page := filepath.Join(repository, "docs", "operating.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return errors.New("docs/operating.md has no place for the table")
	}
	commit, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return err
	}
	told := fmt.Sprintf("Run on %s with commit %s. *All* is: hub install, registration, a CRD with sync, status back, rotation, hub check,\n"+
		"entity, deletion guard, fail-over.\n\n", time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)))
	return os.WriteFile(page, []byte(before+begin+told+r.table(hubs)+"\n"+end+after), 0o600)
}
