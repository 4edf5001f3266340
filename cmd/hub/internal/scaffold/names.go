// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strconv"
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

// usedNames returns the names of the imports and of the declarations of all templates, and of their files.
func usedNames() (map[string]bool, error) {
	probe := values{Name: "probe", Package: "probe", Import: "example.com/probe", Program: "probe"}
	sources := sourcesOf(probe.Package)
	sources["main.go.tmpl"] = "main.go"
	used := map[string]bool{}
	for name, target := range sources {
		text, err := render(name, target, probe)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), target, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse the template of %s: %w", target, err)
		}
		used[target[:len(target)-len(path.Ext(target))]] = true
		for _, decl := range parsed.Decls {
			for _, declared := range declaredNames(decl) {
				used[declared] = true
			}
		}
	}
	delete(used, probe.Package)
	return used, nil
}

// declaredNames returns the names that a declaration of a file introduces.
func declaredNames(decl ast.Decl) []string {
	if function, ok := decl.(*ast.FuncDecl); ok {
		if function.Recv != nil {
			return nil
		}
		return []string{function.Name.Name}
	}
	general, ok := decl.(*ast.GenDecl)
	if !ok {
		return nil
	}
	var names []string
	for _, spec := range general.Specs {
		switch spec := spec.(type) {
		case *ast.ImportSpec:
			names = append(names, importedName(spec))
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
		case *ast.ValueSpec:
			for _, one := range spec.Names {
				names = append(names, one.Name)
			}
		}
	}
	return names
}

// importedName returns the name of an import: the last part of its path, if it has no other.
func importedName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	imported, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ""
	}
	return path.Base(imported)
}
