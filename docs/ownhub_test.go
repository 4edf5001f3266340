// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the page on hubs of one's own shows of the Dockerfile and the Makefile is what hub new module writes.
func TestDocs_OwnHub(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("own-hub.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- (\\S+\\.tmpl) -->\n```[a-z]+\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(shown) != 2 {
		t.Errorf("the page shows %d templates", len(shown))
	}
	for _, one := range shown {
		text, err := os.ReadFile(filepath.Join(repository, "cmd", "hub", "internal", "scaffold", "templates", one[1]))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.ReplaceAll(string(text), "{{.Program}}", "quota-hub"); one[2] != want {
			t.Errorf("the page has another %s:\n%s", one[1], one[2])
		}
	}
}
