// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"github.com/clusterfx/clusterfx/examples"
)

var moduleName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`)

// checkName returns an error for a name whose package would not compile, or would be no package of its own.
func checkName(v values) error {
	bad := fmt.Errorf("%q is not a name for a module: use 2 to 32 of a-z, 0-9 and '-' that are no word or predeclared name of Go, no folder "+
		"with a meaning of its own, and no name that the files of a module use, such as tenant-quota", v.Name)
	folders := []string{"internal", "testdata", "vendor"}
	if !moduleName.MatchString(v.Name) || token.IsKeyword(v.Package) || types.Universe.Lookup(v.Package) != nil || slices.Contains(folders, v.Package) {
		return bad
	}
	used, err := usedNames()
	if err != nil {
		return err
	}
	if used[v.Package] {
		return bad
	}
	return nil
}

// usedNames returns the identifiers in the files of the example. Its own name is free.
func usedNames() (map[string]bool, error) {
	used := map[string]bool{}
	for source := range sourcesOf("quota") {
		text, err := examples.Quota.ReadFile(source)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", source, err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), source, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", source, err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				used[id.Name] = true
			}
			return true
		})
	}
	delete(used, "quota")
	return used, nil
}
