// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sum has the files of a package whose tests check very little.
var sum = map[string]string{
	"go.mod": "module example.com/sum\n\ngo 1.26\n",
	"sum.go": "package sum\n\nfunc Sum(a, b int) int { return a + b }\n\nfunc Half(n int) int { return n / 2 }\n",
	"sum_test.go": `package sum

import "testing"

func TestSum(t *testing.T) {
	if Sum(2, 2) != 4 {
		t.Error("it does not add")
	}
}

func TestHalf(t *testing.T) { _ = Half(2) }

func TestBroken(t *testing.T) { t.Error("it always fails") }
`,
}

func TestTrial(t *testing.T) {
	t.Parallel()
	module := t.TempDir()
	for name, text := range sum {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of := func(before, after, run string) mutant {
		return mutant{
			list: "sum", Breaks: before + " to " + after, File: "sum.go", Before: before, After: after, Package: ".", Run: run,
		}
	}
	for name, c := range map[string]struct {
		mutants []mutant
		says    []string
		fails   bool
	}{
		"caught": {
			[]mutant{of("a + b", "a - b", "^TestSum$"), of("n / 2", "n / (n - 2)", "^TestHalf$")},
			[]string{"caught sum: a + b to a - b (", "TestSum sum_test.go:7: it does not add", "caught sum: n / 2 to n / (n - 2) (", "TestHalf", "2 mutants: 2 caught, 0 survived, 0 not tried"},
			false,
		},
		"survives": {
			[]mutant{of("a + b", "a * b", "^TestSum$"), of("a + b", "a - b", "^TestHalf$"), of("n / 2", "n / (n - 2)", "^TestHalf$")},
			[]string{"SURVIVED sum: a + b to a * b", "SURVIVED sum: a + b to a - b", "caught sum: n / 2", "3 mutants: 1 caught, 2 survived, 0 not tried"},
			true,
		},
		"cannot be tried": {
			[]mutant{of("a - b", "a * b", "^TestSum$"), of("int", "int64", "^TestSum$"), of("a + b", "a + c", "^TestSum$")},
			[]string{"sum.go has 0 times", "sum.go has 4 times", "undefined: c", "3 mutants: 0 caught, 0 survived, 3 not tried"},
			true,
		},
		"tests that fail anyway": {
			[]mutant{of("a + b", "a - b", "^TestBroken$"), of("a + b", "b - a", "^TestSum$")},
			[]string{"the tests fail without a mutant", "ERROR sum: a + b to a - b", "caught sum: a + b to b - a", "2 mutants: 1 caught, 0 survived, 1 not tried"},
			true,
		},
		"tests that are not": {[]mutant{of("a + b", "a - b", "^TestNone$")}, []string{"no test of . matches"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := (&runner{root: module, dir: t.TempDir(), parallel: 3, report: report{out: &out}}).runAll(t.Context(), c.mutants)
			if (err != nil) != c.fails {
				t.Errorf("runAll: unexpected result: error %v", err)
			}
			said := strings.Join(strings.Fields(out.String()), " ")
			for _, text := range c.says {
				if !strings.Contains(said, text) {
					t.Errorf("the report lacks %q:\n%s", text, out.String())
				}
			}
		})
	}
}
