// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Pages that give the number of remotes of hub dev give the default of its flag.
func TestDocs_RemotesOfDev(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("cli", "hub_dev.md"))
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`--clusters int +Number of remotes \(default (\d)\)`).FindSubmatch(page)
	if number == nil {
		t.Fatal("docs/cli/hub_dev.md does not give the number of remotes")
	}
	words := []string{"zero", "one", "two", "three", "four", "five"}
	found := 0
	for page, text := range pages(t) {
		for _, claim := range regexp.MustCompile(`hub\s+(?:with|and)\s+(\w+)\s+remotes`).FindAllStringSubmatch(text, -1) {
			if i := slices.Index(words, claim[1]); i >= 0 && string(number[1]) != string(rune('0'+i)) {
				t.Errorf("%s: got %q, want the default of hub dev, %s", page, claim[0], number[1])
			}
			found++
		}
	}
	if found == 0 {
		t.Error("no page gives the number of remotes of hub dev")
	}
}
