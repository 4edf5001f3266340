// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// step is a command of a page with the output that the page shows.
type step struct{ command, output string }

// stepsIn returns the five commands in the first block of a section of a page.
func stepsIn(t *testing.T, page, section string) []step {
	t.Helper()
	text := testkit.Read(t, "..", "..", "docs", page)
	steps := stepsOf(text, section)
	if len(steps) != 5 {
		t.Fatalf("the page has %d commands, want 5", len(steps))
	}
	return steps
}

// stepsOf returns the commands in the first block of a section of a page.
func stepsOf(page, section string) []step {
	_, page, _ = strings.Cut(page, section+"\n")
	_, page, _ = strings.Cut(page, "```\n")
	block, _, _ := strings.Cut(page, "```\n")
	var steps []step
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, step{command: strings.TrimSpace(command)})
		} else if len(steps) > 0 {
			steps[len(steps)-1].output += line
		}
	}
	return steps
}

// demoArguments returns the arguments of make demo, and those that are added for a rehearsal.
func demoArguments(t *testing.T) (all, rehearsed []string) {
	t.Helper()
	makefile := testkit.Read(t, "..", "..", "Makefile")
	line := regexp.MustCompile(`(?m)^demo:.*\n\tgo run \./\$\(if \$\(REHEARSED\),examples/quota,cmd/hub\) (.*) \$\(ARGS\)\$\(if \$\(REHEARSED\), (.*)\)$`).FindStringSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no target demo that runs the hub")
	}
	return strings.Fields(line[1]), strings.Fields(line[2])
}

var (
	spaces = regexp.MustCompile(`[ \n]+`)
	ages   = regexp.MustCompile(`\b\d+m?\d*s\b`)
	// revisions are those of entities: in a sentence, and in a table.
	revisions = regexp.MustCompile(`(revision |acme )\d+`)
)

// alike makes outputs with other ages, revisions and widths of columns equal.
func alike(output string) string {
	output = revisions.ReplaceAllString(spaces.ReplaceAllString(output, " "), "${1}N")
	return strings.TrimSpace(ages.ReplaceAllString(spaces.ReplaceAllString(output, " "), "AGE"))
}

// expectOutput runs a command in a folder until it prints its output.
func expectOutput(t *testing.T, dir string, one step) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	script := strings.Replace(one.command, "go run ./cmd/hub", self, 1)
	eventually(t, func() error {
		out, err := inShell(t, dir, script)
		if alike(out) != alike(one.output) {
			err = errors.Join(err, fmt.Errorf("%s prints\n%swant\n%s", one.command, out, one.output))
		}
		return err
	})
}

// inShell runs a script in the folder of a dev, with its kubeconfig.
func inShell(t *testing.T, dir, script string) (string, error) {
	t.Helper()
	path, err := fleet.Binary("kubectl")
	must(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-ec", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), asHub+"="+asStock, "KUBECONFIG="+filepath.Join(dir, ".hub", "kubeconfig"),
		"PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// bySecret are the commands of docs/operating.md that register a remote by a labeled Secret.
var bySecret = regexp.MustCompile("(?s)```sh\n(kubectl -n clusterfx-system create secret generic edge-eu-1 .*?)```")

// registerBySecret registers a remote of a dev with those commands.
func registerBySecret(t *testing.T, dir, name string) {
	t.Helper()
	block := bySecret.FindStringSubmatch(testkit.Read(t, "..", "..", "docs", "operating.md"))
	if block == nil {
		t.Fatal("docs/operating.md has no commands that register a remote by a labeled Secret")
	}
	script := "kubectl config view --raw --flatten --minify --context edge-eu-1 > edge-eu-1.kubeconfig\n" + block[1]
	if out, err := inShell(t, dir, strings.ReplaceAll(script, "edge-eu-1", name)); err != nil {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
}
