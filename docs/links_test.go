// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	// fence is a block of code, which contains no links or headings.
	fence = regexp.MustCompile("(?ms)^[ \\t]*```.*?^[ \\t]*```[ \\t]*$")
	// span is code in a line.
	span = regexp.MustCompile("`[^`\n]*`")
	// link is the target of a link.
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// heading is a heading, which links can target.
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

func TestDocs_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for page, text := range all {
		for _, target := range linksOf(text) {
			file, anchor := resolve(page, target)
			if _, err := os.Stat(filepath.Join(repository, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s links to %s: %v", page, target, err)
				continue
			}
			if anchor != "" && !anchorsOf(all[file])[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", page, target, file)
			}
		}
	}
}

// Every page can be reached from the README by links.
func TestDocs_EveryPageIsLinked(t *testing.T) {
	t.Parallel()
	all := pages(t)
	found := map[string]bool{"README.md": true}
	for next := []string{"README.md"}; len(next) > 0; {
		page := next[0]
		next = next[1:]
		for _, target := range linksOf(all[page]) {
			file, _ := resolve(page, target)
			if _, isPage := all[file]; isPage && !found[file] {
				found[file] = true
				next = append(next, file)
			}
		}
	}
	for page := range all {
		if !found[page] {
			t.Errorf("%s cannot be reached from README.md", page)
		}
	}
}

func TestAnchorsOf(t *testing.T) {
	t.Parallel()
	text := "# Two words\n```\n# none\n```\n## `Ready`\n## Ready\n### It's a *word*, with_x (and [a link](b.md))\n"
	for _, anchor := range []string{"two-words", "ready", "ready-1", "its-a-word-with_x-and-a-link"} {
		if !anchorsOf(text)[anchor] {
			t.Errorf("missing anchor %s in %v", anchor, anchorsOf(text))
		}
	}
	if anchorsOf(text)["none"] {
		t.Error("comment in a block of code is treated as a heading")
	}
}

// linksOf returns the link targets of a page that are inside the repository.
func linksOf(text string) []string {
	var targets []string
	for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
		if !strings.Contains(found[1], "://") {
			targets = append(targets, found[1])
		}
	}
	return targets
}

// resolve returns the file that a link of a page targets, and the anchor in it.
func resolve(page, target string) (file, anchor string) {
	file, anchor, _ = strings.Cut(target, "#")
	if file == "" {
		return page, anchor
	}
	return path.Join(path.Dir(page), file), anchor
}

// anchorsOf returns the anchors of the headings of a page, as GitHub makes them: lower case, hyphens for spaces, no
// punctuation, and a number for duplicates.
func anchorsOf(text string) map[string]bool {
	all := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(found[1], "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsSpace(r):
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		unique := anchor
		for i := 1; all[unique]; i++ {
			unique = anchor + "-" + strconv.Itoa(i)
		}
		all[unique] = true
	}
	return all
}
