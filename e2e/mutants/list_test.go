// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// root is the path from this package to the root of the module.
const root = "../.."

// Every mutant can be tried: the text that it replaces occurs once, the result is Go syntax, and its package has tests
// with the names that it gives, fast ones but for the list slow. Whether the tests catch the mutant takes too long to
// check here.
func TestLists_Apply(t *testing.T) {
	t.Parallel()
	all, err := readLists()
	testkit.Must(t, err)
	if len(all) < 45 {
		t.Errorf("got %d mutants, want at least 45", len(all))
	}
	seen := map[string]bool{}
	for _, m := range all {
		if m.Breaks == "" || seen[m.Breaks] {
			t.Errorf("%s: the description of the mutant is empty or not unique", &m)
		}
		seen[m.Breaks] = true
		text, err := m.apply(root)
		if err != nil {
			t.Errorf("%s: %v", &m, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: %v", &m, err)
		}
		name, _, _ := strings.Cut(m.Run, "/") // A subtest follows.
		run, err := regexp.Compile(name)
		if err != nil || !slices.ContainsFunc(testsOf(t, m.Package, m.isSlow()), run.MatchString) {
			t.Errorf("%s: no test of %s with slow=%t matches %s (%v)", &m, m.Package, m.isSlow(), m.Run, err)
		}
	}
}

// testsOf returns the names of the tests of a package that run with -short, or of those that do not.
func testsOf(t *testing.T, pkg string, slow bool) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests (%v)", pkg, err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		pattern := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\) {\n(?:\tt\.Parallel\(\)\n)?(\tfleettest\.Slow\()?`)
		for _, found := range pattern.FindAllSubmatch(text, -1) {
			if slow == (len(found[2]) > 0) {
				names = append(names, string(found[1]))
			}
		}
	}
	return names
}
