// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Each word that once had several meanings names at most one exported type.
func TestWords_NameOneType(t *testing.T) {
	t.Parallel()
	const words = " epoch term record guard hold runner share host observer entry life site stage world "
	seen, files := map[string]string{}, 0
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != repository && isNotOurs(entry.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(file, func(n ast.Node) bool {
			spec, isType := n.(*ast.TypeSpec)
			if !isType || !spec.Name.IsExported() || !strings.Contains(words, " "+strings.ToLower(spec.Name.Name)+" ") {
				return true
			}
			if other := seen[spec.Name.Name]; other != "" {
				t.Errorf("%s is a type of %s and of %s: rename one of them", spec.Name, other, filepath.Dir(path))
			}
			seen[spec.Name.Name] = filepath.Dir(path)
			return true
		})
		return nil
	})
	if err != nil || files < 500 || len(seen) < 5 {
		t.Fatalf("%d files with the types %v (%v)", files, seen, err)
	}
}
