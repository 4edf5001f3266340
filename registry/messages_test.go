// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The registry is independent of the program that uses it: no message names an annotation or a field of a Cluster, a
// flag or a command. The program adds such advice by the state.Problem of a message. Credentials are the exception:
// package kubeconfig names the fields of a Cluster that complete a Secret.
func TestMessages_NameNothingOfTheHub(t *testing.T) {
	t.Parallel()
	foreign := regexp.MustCompile(`clusterfx\.dev/[a-z]|\bspec\.|\bstatus\.|--[a-z]|hub (register|install|check|run|rbac)\b`)
	known := map[string]bool{"clusterfx.dev/owned-by": true, "clusterfx.dev/allow-deletes": true, "clusterfx.dev/removals": true} // of the registry's own objects
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == "kubeconfig":
			return fs.SkipDir
		case d.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, _ := strconv.Unquote(literal.Value); foreign.MatchString(text) && !known[text] {
					t.Errorf("%s: got a message with a name of the hub: %s", files.Position(literal.Pos()), literal.Value)
				}
			}
			return true
		})
		return nil
	})
	must(t, err)
}
