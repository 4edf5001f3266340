// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// A page that says how many remotes hub dev has says the default of its flag.
func TestDocs_RemotesOfDev(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("cli", "hub_dev.md"))
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`--clusters int +Number of remotes \(default (\d)\)`).FindSubmatch(page)
	if number == nil {
		t.Fatal("the page of hub dev does not say how many remotes it has")
	}
	words := []string{"zero", "one", "two", "three", "four", "five"}
	found := 0
	for page, text := range pages(t) {
		for _, claim := range regexp.MustCompile(`hub\s+(?:with|and)\s+(\w+)\s+remotes`).FindAllStringSubmatch(text, -1) {
			if i := slices.Index(words, claim[1]); i >= 0 && string(number[1]) != string(rune('0'+i)) {
				t.Errorf("%s: %q, and dev has %s", page, claim[0], number[1])
			}
			found++
		}
	}
	if found == 0 {
		t.Error("no page says how many remotes dev has")
	}
}
