// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

type runner struct {
	root     string // of the module
	dir      string // for its files
	parallel int    // how many mutants are tried at once
	report   report
}

// A mutant that makes its tests hang is caught.
const (
	fastTimeout = 5 * time.Minute
	slowTimeout = 30 * time.Minute // of a slow test, and of the tests of all mutants of a package
)

var errUnhealthy = errors.New("its tests fail without it, or do not compile")

func (r *runner) runAll(ctx context.Context, all []mutant) error {
	var trying errgroup.Group
	trying.SetLimit(max(1, r.parallel))
	for _, group := range byPackage(all) {
		isHealthy, err := r.checkHealth(ctx, group)
		if err != nil && ctx.Err() == nil {
			r.report.say("ERROR     %v\n", err)
		}
		for _, m := range group {
			trying.Go(func() error {
				r.runOne(ctx, m, isHealthy(m))
				return nil
			})
		}
	}
	_ = trying.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.report.end()
}

func (r *runner) runOne(ctx context.Context, m *mutant, isHealthy bool) {
	began, by, err := time.Now(), "", errUnhealthy
	if isHealthy {
		by, err = r.run(ctx, m)
	}
	if ctx.Err() == nil {
		r.report.add(m, by, err, time.Since(began))
	}
}

func byPackage(all []mutant) [][]*mutant {
	var groups [][]*mutant
	for i := range all {
		m := &all[i]
		i := slices.IndexFunc(groups, func(g []*mutant) bool { return g[0].Package == m.Package })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], m)
	}
	return groups
}

// checkHealth runs the tests without mutants, and returns which can be tried, with an error if not all.
func (r *runner) checkHealth(ctx context.Context, group []*mutant) (isHealthy func(*mutant) bool, err error) {
	none := func(*mutant) bool { return false }
	var runs []string
	for _, m := range group {
		runs = append(runs, m.Run)
	}
	slices.Sort(runs)
	all := mutant{list: group[0].list, Package: group[0].Package, Run: strings.Join(slices.Compact(runs), "|")}
	output, passed, err := r.test(ctx, &all, "-timeout", slowTimeout.String())
	switch {
	case err != nil:
		return none, err
	case passed:
		return func(*mutant) bool { return true }, nil
	}
	err = fmt.Errorf("the tests fail without a mutant:\n%s", output)
	var failed []string
	for _, found := range regexp.MustCompile(failedLine).FindAllSubmatch(output, -1) {
		failed = append(failed, string(found[1]))
	}
	if len(failed) == 0 {
		return none, err
	}
	return func(m *mutant) bool {
		return !slices.ContainsFunc(failed, regexp.MustCompile(m.Run).MatchString)
	}, err
}

// run returns the first test that fails, or "".
func (r *runner) run(ctx context.Context, m *mutant) (by string, err error) {
	overlay, err := r.overlay(m)
	if err != nil {
		return "", err
	}
	timeout := fastTimeout
	if m.isSlow() {
		timeout = slowTimeout
	}
	output, passed, err := r.test(ctx, m, "-overlay", overlay, "-failfast", "-timeout", timeout.String())
	if err != nil || passed {
		return "", err
	}
	if by = failedTest(output); by == "" {
		return "", fmt.Errorf("no test failed, and yet they do not pass:\n%s", output)
	}
	if found := regexp.MustCompile(`(?m)^\s+(\S+_test\.go:\d+: .+)$`).FindSubmatch(output); found != nil {
		by += " " + string(found[1])
	}
	return by, nil
}

// overlay is the file that makes the compiler use the mutant.
func (r *runner) overlay(m *mutant) (path string, err error) {
	text, err := m.apply(r.root)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(r.dir, "")
	if err != nil {
		return "", err
	}
	replaced, err := filepath.Abs(filepath.Join(r.root, m.File))
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, "changed.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {replaced: changed}})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(path, overlay, 0o600))
}

func (r *runner) test(ctx context.Context, m *mutant, flags ...string) (output []byte, passed bool, err error) {
	args := append([]string{"test", "-vet=off", "-ldflags=-s -w", "-count=1", "-v", "-run", m.Run, fmt.Sprintf("-short=%t", !m.isSlow())}, flags...)
	command := exec.CommandContext(ctx, "go", append(args, m.Package)...)
	command.Dir = r.root
	// Interrupted first, so that it ends the API servers that it has started.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	output, err = command.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &failed):
		return nil, false, fmt.Errorf("run the tests of %s: %w", m.Package, err)
	case bytes.Contains(output, []byte("[build failed]")):
		return nil, false, fmt.Errorf("compile %s:\n%s", m.Package, output)
	case !bytes.Contains(output, []byte("=== RUN")):
		return nil, false, fmt.Errorf("no test of %s matches %s", m.Package, m.Run)
	}
	return output, err == nil, nil
}

const failedLine = `(?m)^--- FAIL: (\S+)`

// failedTest may return "".
func failedTest(output []byte) string {
	for _, pattern := range []string{
		failedLine,
		`(?m)^panic: test timed out[^\n]*\n\s*running tests:\n\s*(\S+)`,
		`(?m)^=== RUN   (\S+)\n(?:.*\n)*?panic: `,
	} {
		if found := regexp.MustCompile(pattern).FindSubmatch(output); found != nil {
			return string(found[1])
		}
	}
	return ""
}
