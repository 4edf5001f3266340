// SPDX-License-Identifier: Apache-2.0

// Package docs_test checks that the documentation shows code that is compiled, links to what is there, and names every
// condition and every target of make as it is.
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

// repository is the folder that everything is in.
const repository = ".."

// pages returns every page of the repository, by its path from there.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(repository, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != repository && isNotOurs(entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(repository, path)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no pages: %v", err)
	}
	return all
}

// isNotOurs reports whether a folder is what tools and builds leave.
func isNotOurs(folder string) bool { return strings.HasPrefix(folder, ".") || folder == "dist" }

func TestDocs_CodeIsCompiled(t *testing.T) {
	t.Parallel()
	for page, text := range pages(t) {
		if !strings.HasPrefix(page, "docs/") {
			continue // What the others show is shortened.
		}
		for _, found := range block.FindAllStringSubmatch(text, -1) {
			file, code := found[1], found[2]
			source, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(file)))
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
