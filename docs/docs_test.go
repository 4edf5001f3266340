// SPDX-License-Identifier: Apache-2.0

// Package docs_test checks that the documentation shows code that is compiled, has links with a target, is
// made of comments where it can be, and names only make targets that exist.
package docs_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// block is a block of Go, or of YAML of an example, in a page, with the file that the page names as its source.
var block = regexp.MustCompile("(?s)(?:(?:<!-- ([^ ]+) -->\n)?```go|<!-- (examples/[^ ]+) -->\n```yaml)\n(.*?)```")

// repository is the root of the repository.
const repository = ".."

// pages returns every page of the repository, by its path from the root.
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
		t.Fatalf("no pages found: %v", err)
	}
	return all
}

// isNotOurs reports whether tools or builds create a folder.
func isNotOurs(folder string) bool { return strings.HasPrefix(folder, ".") || folder == "dist" }

func TestDocs_CodeIsCompiled(t *testing.T) {
	t.Parallel()
	for page, text := range pages(t) {
		for _, found := range block.FindAllStringSubmatch(text, -1) {
			file, code := found[1]+found[2], found[3]
			source, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(file)))
			switch {
			case file == "":
				t.Errorf("%s: block of code does not name its file:\n%s", page, code)
			case err != nil:
				t.Errorf("%s: %v", page, err)
			case !strings.Contains(string(source), code):
				t.Errorf("%s: %s does not contain this block of code:\n%s", page, file, code)
			}
		}
	}
}

var (
	// yamlBlock is a block of YAML in a page.
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	// example is an Example that a page names in place of code.
	example = regexp.MustCompile("`(Example[A-Z]\\w*)`")
)

// Blocks of YAML can be parsed.
func TestDocs_YAMLIsValid(t *testing.T) {
	t.Parallel()
	found := 0
	for page, text := range pages(t) {
		for _, block := range yamlBlock.FindAllStringSubmatch(text, -1) {
			var value any
			if err := yaml.Unmarshal([]byte(block[1]), &value); err != nil {
				t.Errorf("%s: %v in the block\n%s", page, err, block[1])
			}
			found++
		}
	}
	if found == 0 {
		t.Error("no page has a block of YAML")
	}
}

// Examples that pages name in place of code exist.
func TestDocs_ExamplesExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	err := eachTestFile(t, func(_ string, file *ast.File) error {
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				known[function.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for page, text := range pages(t) {
		for name := range namesIn(example, text) {
			if found++; !known[name] {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
	if found == 0 {
		t.Error("no page names an Example")
	}
}

// The words of the project are few: the list on the page has at most 55.
func TestDocs_Words(t *testing.T) {
	t.Parallel()
	_, list, _ := strings.Cut(pages(t)["docs/how-it-works.md"], "\n## Words\n")
	if words := strings.Count(list, "\n| ") - 1; words < 30 || words > 55 {
		t.Errorf("docs/how-it-works.md lists %d words, want at most 55", words)
	}
}

// A newcomer reads at most 7 500 words for the tasks of README's table: from the demo to the upgrade of a hub with modules, rules and
// entities. What only some need comes after that in a page, or behind a link.
func TestDocs_WordsOfTasks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	operating, _, found := strings.Cut(all["docs/operating.md"], "\n## Pause")
	if !found {
		t.Error("docs/operating.md does not begin with the tasks of everybody")
	}
	words := len(strings.Fields(operating))
	for _, page := range []string{"README.md", "docs/modules.md", "docs/syncing.md", "docs/entities.md", "docs/runbooks/ClusterfxDeletesHeld.md"} {
		words += len(strings.Fields(all[page]))
	}
	if words < 1000 || words > 7500 {
		t.Errorf("the tasks have %d words, want at most 7 500", words)
	}
	t.Logf("%d words", words)
}
