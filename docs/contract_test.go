// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each test that a row of a contract names exists, and each row names one.
func TestDocs_Contracts(t *testing.T) {
	t.Parallel()
	for page, folder := range map[string]string{
		"docs/syncing-contract.md": "reconcilers/syncer", "docs/entities-contract.md": "reconcilers/entity",
		"docs/design/runners.md": "cmd/hub/internal/shards",
	} {
		text, ok := pages(t)[page]
		if !ok {
			t.Errorf("there is no page %s", page)
		}
		for _, row := range strings.Split(text, "\n") {
			if !strings.HasPrefix(row, "| ") || strings.Contains(row, " proven ") {
				continue
			}
			cells := strings.Split(strings.Trim(row, "| "), "|")
			proof := cells[len(cells)-1]
			if !strings.Contains(proof, "Test") {
				t.Errorf("%s: no test is named in the row %s", page, row)
			}
			for _, clause := range strings.Split(proof, ";") {
				checkTests(t, folder, clause)
			}
		}
	}
}

// folderOrTest is the folder of the tests that follow, or a test.
var folderOrTest = regexp.MustCompile(`\b[a-z0-9]+(?:/\w+)+|\b(?:modules|registry)\b|\bTest\w+`)

func checkTests(t *testing.T, folder, clause string) {
	t.Helper()
	for _, word := range folderOrTest.FindAllString(clause, -1) {
		if !strings.HasPrefix(word, "Test") {
			folder = word
			continue
		}
		if !hasTest(t, folder, word) {
			t.Errorf("%s has no test %s", folder, word)
		}
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
