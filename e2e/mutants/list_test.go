// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// root is the root of the module, seen from here.
const root = "../.."

// Every mutant can be tried: the text that it replaces is there once, what comes of that is Go, and there are
// tests with the names that it gives. Whether the tests catch it takes too long to find out here.
func TestLists_Apply(t *testing.T) {
	t.Parallel()
	all, err := readLists()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 45 {
		t.Errorf("there are %d mutants, want 45 and more", len(all))
	}
	tests, seen := map[string][]string{}, map[string]bool{}
	for _, m := range all {
		if m.Breaks == "" || seen[m.Breaks] {
			t.Errorf("%s: what it breaks is said once", &m)
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
		if tests[m.Package] == nil {
			tests[m.Package] = testsOf(t, m.Package)
		}
		run, err := regexp.Compile(m.Run)
		if err != nil || !slices.ContainsFunc(tests[m.Package], run.MatchString) {
			t.Errorf("%s: no test of %s matches %s (%v)", &m, m.Package, m.Run, err)
		}
	}
}

// testsOf returns the names of the tests of a package.
func testsOf(t *testing.T, pkg string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests (%v)", pkg, err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}
