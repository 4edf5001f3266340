// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// trial tries mutants.
type trial struct {
	root string // of the module
	dir  string // for what it makes
	out  io.Writer
}

// testTimeout bounds one run of the tests of a mutant. One that makes them hang is caught as well.
const testTimeout = 5 * time.Minute

// errUnhealthy says that a mutant was not tried because its tests show nothing.
var errUnhealthy = errors.New("its tests fail without it, or do not compile")

// tryAll tries the mutants package by package, and returns an error unless all are caught.
func (t *trial) tryAll(ctx context.Context, all []mutant) error {
	caught, survived, untried := 0, 0, 0
	for _, group := range byPackage(all) {
		healthy := t.checkHealthy(ctx, group)
		if healthy != nil {
			t.say("ERROR     %v\n", healthy)
			healthy = errUnhealthy
		}
		for i := range group {
			m, began := &group[i], time.Now()
			by, err := "", healthy
			if err == nil {
				by, err = t.try(ctx, m)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			took := time.Since(began).Round(time.Second)
			switch {
			case err != nil:
				untried++
				t.say("ERROR     %s\n          %v\n", m, err)
			case by == "":
				survived++
				t.say("SURVIVED  %s (%s -run '%s', %s)\n", m, m.Package, m.Run, took)
			default:
				caught++
				t.say("caught    %s (%s, %s)\n", m, by, took)
			}
		}
	}
	t.say("%d mutants: %d caught, %d survived, %d could not be tried\n", len(all), caught, survived, untried)
	if caught < len(all) {
		return errors.New("not all mutants are caught: write the tests that catch them, or correct the list")
	}
	return nil
}

// say writes a line of the report.
func (t *trial) say(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

// byPackage groups mutants by the package of their tests, in the order of the first of each.
func byPackage(all []mutant) [][]mutant {
	var groups [][]mutant
	for _, m := range all {
		i := slices.IndexFunc(groups, func(g []mutant) bool { return g[0].Package == m.Package })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], m)
	}
	return groups
}

// checkHealthy returns an error unless the tests of a group's mutants pass without any of them.
func (t *trial) checkHealthy(ctx context.Context, group []mutant) error {
	binary, err := t.compile(ctx, group[0].Package)
	if err != nil {
		return err
	}
	var runs []string
	for _, m := range group {
		runs = append(runs, m.Run)
	}
	slices.Sort(runs)
	output, passed, err := t.test(ctx, binary, group[0].Package, strings.Join(slices.Compact(runs), "|"))
	if err == nil && !passed {
		err = fmt.Errorf("the tests fail without a mutant:\n%s", output)
	}
	return err
}

// try returns the name of the first test that fails with the mutant, or "" if all pass.
func (t *trial) try(ctx context.Context, m *mutant) (by string, err error) {
	text, err := m.apply(t.root)
	if err != nil {
		return "", err
	}
	overlay, err := t.overlay(m.File, text)
	if err != nil {
		return "", err
	}
	binary, err := t.compile(ctx, m.Package, "-overlay", overlay)
	if err != nil {
		return "", err
	}
	output, passed, err := t.test(ctx, binary, m.Package, m.Run)
	if err != nil || passed {
		return "", err
	}
	if by = failedTest(output); by == "" {
		return "", fmt.Errorf("no test failed, and yet they do not pass:\n%s", output)
	}
	return by, nil
}

// overlay writes what makes the compiler see another text of a file.
func (t *trial) overlay(file string, text []byte) (path string, err error) {
	replaced, err := filepath.Abs(filepath.Join(t.root, file))
	if err != nil {
		return "", err
	}
	changed := filepath.Join(t.dir, "changed.go")
	overlay, err := json.Marshal(struct{ Replace map[string]string }{map[string]string{replaced: changed}})
	if err != nil {
		return "", err
	}
	path = filepath.Join(t.dir, "overlay.json")
	return path, errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(path, overlay, 0o600))
}

// compile returns the test binary of a package.
func (t *trial) compile(ctx context.Context, pkg string, flags ...string) (binary string, err error) {
	binary = filepath.Join(t.dir, "package.test")
	args := slices.Concat([]string{"test", "-c", "-ldflags=-s -w", "-o", binary}, flags, []string{pkg})
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = t.root
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile %s: %w\n%s", pkg, err, output)
	}
	return binary, nil
}

// test runs tests of a binary in the folder of its package.
func (t *trial) test(ctx context.Context, binary, pkg, run string) (output []byte, passed bool, err error) {
	command := exec.CommandContext(ctx, binary, "-test.v", "-test.failfast", "-test.timeout", testTimeout.String(), "-test.run", run)
	command.Dir = filepath.Join(t.root, pkg)
	// Interrupted first, so that it ends the API servers that it has started.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	output, err = command.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &failed):
		return nil, false, fmt.Errorf("run the tests of %s: %w", pkg, err)
	case !bytes.Contains(output, []byte("=== RUN")):
		return nil, false, fmt.Errorf("no test of %s matches %s", pkg, run)
	}
	return output, err == nil, nil
}

// failedTest returns the name of the first test that has failed, or "".
func failedTest(output []byte) string {
	for _, pattern := range []string{
		`(?m)^--- FAIL: (\S+)`,
		`(?m)^panic: test timed out[^\n]*\n\s*running tests:\n\s*(\S+)`,
		`(?m)^=== RUN   (\S+)\n(?:.*\n)*?panic: `,
	} {
		if found := regexp.MustCompile(pattern).FindSubmatch(output); found != nil {
			return string(found[1])
		}
	}
	return ""
}
