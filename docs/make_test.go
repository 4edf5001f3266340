// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	// called is a make target that a page names, in a block of code or in a line.
	called = regexp.MustCompile("(?m)(?:^|`|\\$ )make ([a-z][a-z0-9-]*)")
	// target is a target in a Makefile.
	target = regexp.MustCompile("(?m)^([a-z][a-z0-9-]*):")
)

func TestDocs_TargetsExist(t *testing.T) {
	t.Parallel()
	targets, own, used := targetsOf(t, "Makefile"), targetsOf(t, "examples/quota/Makefile"), 0
	for page, text := range pages(t) {
		for name := range namesIn(called, text) {
			used++
			if !targets[name] && (page != "docs/modules.md" || !own[name]) {
				t.Errorf("%s names make %s, which is not in the Makefile", page, name)
			}
		}
	}
	if used == 0 {
		t.Error("no page names a make target")
	}
}

// namesIn returns the first groups of a pattern in a text.
func namesIn(pattern *regexp.Regexp, text string) map[string]bool {
	names := map[string]bool{}
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		names[found[1]] = true
	}
	return names
}

// targetsOf returns the targets of a Makefile.
func targetsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return namesIn(target, string(makefile))
}
