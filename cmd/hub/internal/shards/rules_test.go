// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Each rule has a row in the page of the design, and a test that leaves it out.
func TestRules_AreDocumentedAndProven(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	testkit.Must(t, err)
	page := read(t, filepath.Join("..", "..", "..", "..", "docs", "design", "replicas.md"))
	proofs := read(t, "modelrules_test.go") + read(t, "modelbounds_test.go")
	declaration := regexp.MustCompile(`(?m)^\t(rule\w+)\s+rule = "([a-z-]+)"`)
	rules := 0
	for _, file := range files {
		for _, found := range declaration.FindAllStringSubmatch(read(t, file), -1) {
			rules++
			if !strings.Contains(page, "\n| `"+found[2]+"`: ") {
				t.Errorf("the page has no row of the rule %s", found[2])
			}
			if !regexp.MustCompile(`\b` + found[1] + `\b`).MatchString(proofs) {
				t.Errorf("no test leaves out the rule %s", found[2])
			}
		}
	}
	if rows := strings.Count(page, "\n| `"); rules == 0 || rows != rules {
		t.Errorf("there are %d rules, and %d rows in the page", rules, rows)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text := testkit.Read(t, file)
	return text
}
