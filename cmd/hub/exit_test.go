// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// In cmd/hub and the examples, only package main exits the process, where readers look for it.
func TestExit_OnlyInMain(t *testing.T) {
	t.Parallel()
	for _, root := range []string{".", filepath.Join("..", "..", "examples")} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil || file.Name.Name == "main" {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if what := exits(n); what != "" {
					t.Errorf("%s calls %s", path, what)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// exits returns the call in n that exits the process, or an empty string.
func exits(n ast.Node) string {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	from, ok := selector.X.(*ast.Ident)
	if !ok {
		return ""
	}
	call := from.Name + "." + selector.Sel.Name
	if call == "os.Exit" || strings.HasPrefix(call, "log.Fatal") || strings.HasPrefix(call, "klog.Fatal") {
		return call
	}
	return ""
}
