// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tables in the documentation of this package and of e2e/regression have every row of their catalogues, and name tests
// that exist in the packages that they give.
func TestDoc(t *testing.T) {
	t.Parallel()
	proofs := readProofs(t, ".")
	checkTable(t, ".", proofs, "F", 78)
	regressions := readProofs(t, "../regression")
	checkTable(t, "../regression", regressions, "D", 18)
	checkTable(t, "../regression", regressions, "L", 10)
	for _, r := range allRows() {
		for _, id := range strings.Split(r.ids, ", ") {
			if mark := `"` + r.name + `"`; !strings.Contains(proofs[id], mark) {
				t.Errorf("entry %s of the table lacks %s", id, mark)
			}
		}
	}
}

func checkTable(t *testing.T, folder string, proofs map[string]string, letter string, rows int) {
	t.Helper()
	for n := range rows {
		id := fmt.Sprintf("%s%d", letter, n+1)
		if proofs[id] == "" {
			t.Errorf("%s is not in the table", id)
		}
		checkNames(t, folder, id, proofs[id])
	}
}

func allRows() []row {
	return slices.Concat(connectionRows(), apiRows(), outageRows(), credentialRows(), processRows(), storageRows())
}

var rowInDoc = regexp.MustCompile(`(?m)^\t([FDL]\d+) +(.*(?:\n\t     .*)*)`)

// readProofs returns the text of each row of a package's documentation, by id.
func readProofs(t *testing.T, folder string) map[string]string {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(folder, "doc.go"))
	must(t, err)
	proofs := map[string]string{}
	for _, found := range rowInDoc.FindAllStringSubmatch(string(doc), -1) {
		proofs[found[1]] = found[2]
	}
	return proofs
}

var (
	quoted = regexp.MustCompile(`"([^"]+)"`)
	// word matches a test, or the folder of the tests that follow.
	word = regexp.MustCompile(`\b(?:registry|reconcilers|cmd|e2e|modules|hubtest)(?:/\w+)*|\bTest\w+`)
)

// checkNames checks that the tests that prove a row exist.
func checkNames(t *testing.T, own, id, proof string) {
	t.Helper()
	for _, name := range quoted.FindAllStringSubmatch(proof, -1) {
		at := slices.IndexFunc(allRows(), func(r row) bool { return r.name == name[1] })
		if at < 0 {
			t.Errorf("%s: there is no row %q", id, name[1])
		}
	}
	for _, clause := range strings.Split(proof, ";") {
		folder := own
		for _, w := range word.FindAllString(quoted.ReplaceAllString(clause, ""), -1) {
			if !strings.HasPrefix(w, "Test") {
				folder = filepath.Join("..", "..", w)
				continue
			}
			if !hasTest(t, folder, w) {
				t.Errorf("%s: folder %s has no test %s", id, folder, w)
			}
		}
	}
}

// hasTest reports whether a package has a test of that name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	must(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		must(t, err)
		return strings.Contains(string(data), "\nfunc "+name+"(t *testing.T)")
	})
}
