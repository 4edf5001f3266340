// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The Dockerfile and the Makefile in docs/own-hub.md are those of examples/quota, which hub new module renames.
func TestDocs_OwnHub(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("own-hub.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- examples/quota/(\\S+) -->\n```[a-z]+\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(shown) != 2 {
		t.Errorf("docs/own-hub.md shows %d files of examples/quota, want 2", len(shown))
	}
	for _, one := range shown {
		text, err := os.ReadFile(filepath.Join(repository, "examples", "quota", one[1]))
		if err != nil {
			t.Fatal(err)
		}
		if one[2] != string(text) {
			t.Errorf("docs/own-hub.md differs from examples/quota/%s:\n%s", one[1], one[2])
		}
	}
}
