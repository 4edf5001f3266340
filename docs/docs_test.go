// SPDX-License-Identifier: Apache-2.0

// Package docs_test checks that the documentation shows code that is compiled and links to what is there.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a block of Go in a page, with the file that it is said to be from.
var block = regexp.MustCompile("(?s)(?:<!-- ([^ ]+) -->\n)?```go\n(.*?)```")

// link is a link to a file of the repository.
var link = regexp.MustCompile(`\]\(([^)#:]+)[^):]*\)`)

func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no pages: %v", err)
	}
	return all
}

func TestDocs_CodeIsCompiled(t *testing.T) {
	t.Parallel()
	for page, text := range pages(t) {
		for _, found := range block.FindAllStringSubmatch(text, -1) {
			file, code := found[1], found[2]
			source, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
			switch {
			case file == "" || filepath.Ext(file) != ".go":
				t.Errorf("%s: this block does not say which file it is from:\n%s", page, code)
			case err != nil:
				t.Errorf("%s: %v", page, err)
			case !strings.Contains(string(source), code):
				t.Errorf("%s: this is not in %s:\n%s", page, file, code)
			}
		}
	}
}

func TestDocs_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for page, text := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), filepath.FromSlash(found[1]))); err != nil {
				t.Errorf("%s links to %s: %v", page, found[1], err)
			}
		}
	}
}
