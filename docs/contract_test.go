// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// promisePrefix begins the sentence of a promise above the test that shows it.
const promisePrefix = "// Promise: "

// Each promise is a sentence above the test that shows it, and is made once. This test prints the list:
// go test ./docs -run Promises -v.
func TestDocs_Promises(t *testing.T) {
	t.Parallel()
	made := map[string]string{}
	err := eachTestFile(t, func(path string, file *ast.File) error {
		isAbove := map[*ast.Comment]string{}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv != nil || function.Doc == nil || !strings.HasPrefix(function.Name.Name, "Test") {
				continue
			}
			for _, comment := range function.Doc.List {
				isAbove[comment] = function.Name.Name
			}
		}
		for _, group := range file.Comments {
			for _, comment := range group.List {
				promise, ok := strings.CutPrefix(comment.Text, promisePrefix)
				switch by := path + " " + isAbove[comment]; {
				case !ok:
				case isAbove[comment] == "":
					t.Errorf("%s: no test is below the promise %q", path, promise)
				case made[promise] != "":
					t.Errorf("%s and %s show the promise %q: it is shown once", made[promise], by, promise)
				default:
					made[promise] = by
				}
			}
		}
		return nil
	})
	if err != nil || len(made) == 0 {
		t.Fatalf("no promises found: %v", err)
	}
	var list strings.Builder
	for _, promise := range slices.SortedFunc(maps.Keys(made), func(a, b string) int { return strings.Compare(made[a]+a, made[b]+b) }) {
		fmt.Fprintf(&list, "%s: %s\n", made[promise], promise)
	}
	t.Logf("%d promises:\n%s", len(made), list.String())
}

// Each test that a row of the protocol names exists, and each row names one.
func TestDocs_Protocol(t *testing.T) {
	t.Parallel()
	const page = "docs/design/replicas.md"
	text, ok := pages(t)[page]
	if !ok {
		t.Errorf("there is no page %s", page)
	}
	for row := range strings.Lines(text) {
		row = strings.TrimSpace(row)
		if !strings.HasPrefix(row, "| ") || strings.Contains(row, " proven ") {
			continue
		}
		cells := strings.Split(strings.Trim(row, "| "), "|")
		proof := cells[len(cells)-1]
		if !strings.Contains(proof, "Test") {
			t.Errorf("%s: no test is named in the row %s", page, row)
		}
		for clause := range strings.SplitSeq(proof, ";") {
			checkTests(t, "cmd/hub/internal/shards", clause)
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
	testkit.Must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
