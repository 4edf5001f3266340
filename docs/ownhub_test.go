// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The Dockerfile and the Makefile in docs/own-hub.md are the templates of hub new module.
func TestDocs_OwnHub(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("own-hub.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- (\\S+\\.tmpl) -->\n```[a-z]+\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(shown) != 2 {
		t.Errorf("docs/own-hub.md shows %d templates, want 2", len(shown))
	}
	for _, one := range shown {
		text, err := os.ReadFile(filepath.Join(repository, "cmd", "hub", "internal", "scaffold", "templates", one[1]))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.ReplaceAll(string(text), "{{.Program}}", "quota-hub"); one[2] != want {
			t.Errorf("docs/own-hub.md differs from the template %s:\n%s", one[1], one[2])
		}
	}
}
