// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// The tables in the documentation of this package have every row, and name tests that exist in the packages that they give.
func TestDoc(t *testing.T) {
	t.Parallel()
	proofs := readProofs(t)
	for letter, rows := range map[string]int{"D": 18, "L": 10} {
		for n := range rows {
			id := fmt.Sprintf("%s%d", letter, n+1)
			if proofs[id] == "" {
				t.Errorf("%s is not in the table", id)
			}
			checkNames(t, id, proofs[id])
		}
	}
}

var rowInDoc = regexp.MustCompile(`(?m)^\t([DL]\d+) +(.*(?:\n\t     .*)*)`)

// readProofs returns the text of each row of the package's documentation, by id.
func readProofs(t *testing.T) map[string]string {
	t.Helper()
	proofs := map[string]string{}
	for _, found := range rowInDoc.FindAllStringSubmatch(testkit.Read(t, "doc.go"), -1) {
		proofs[found[1]] = found[2]
	}
	return proofs
}

// word matches a test, or the folder of the tests that follow.
var word = regexp.MustCompile(`\b(?:registry|reconcilers|cmd|e2e|modules|hubtest)(?:/\w+)*|\bTest\w+`)

// checkNames checks that the tests that prove a row exist.
func checkNames(t *testing.T, id, proof string) {
	t.Helper()
	for _, clause := range strings.Split(proof, ";") {
		folder := "."
		for _, w := range word.FindAllString(clause, -1) {
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
	testkit.Must(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		return strings.Contains(testkit.Read(t, file), "\nfunc "+name+"(t *testing.T)")
	})
}
