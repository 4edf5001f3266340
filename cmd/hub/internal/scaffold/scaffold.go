// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/clusterfx/clusterfx/examples"
)

const ourModule = "github.com/clusterfx/clusterfx"

// Files are the files to write, in order.
type Files struct {
	// Package is the import path of the module's package.
	Package string
	// Next says how the module gets into a hub.
	Next string

	all []file
}

type file struct {
	path string
	text []byte
}

// values are what a module has in place of the words of the example.
type values struct {
	Name, Package, Import, Program string
	Licensed                       bool
}

var moduleLine = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)"?`)

// sourcesOf returns the files of the example's package, and those of a module's package that they become.
func sourcesOf(pkg string) map[string]string {
	all := map[string]string{}
	sources, _ := fs.Glob(examples.Quota, "quota/quota/*.go") // The pattern is good.
	for _, source := range sources {
		all[source] = strings.Replace(path.Base(source), "quota_test", pkg+"_test", 1)
	}
	return all
}

// Module returns the files of a module with this name, for the Go module that a folder is in.
func Module(name, dir string) (*Files, error) {
	v := values{Name: name, Package: strings.ReplaceAll(name, "-", "")}
	if err := checkName(v); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, module, err := goModule(dir)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, v.Package)
	if v.Licensed = module == ourModule; v.Licensed {
		folder = filepath.Join(root, "modules", v.Package)
	}
	in, err := filepath.Rel(root, folder)
	if err != nil {
		return nil, fmt.Errorf("find the package of %s: %w", folder, err)
	}
	v.Import, v.Program = path.Join(module, filepath.ToSlash(in)), path.Base(module)
	f := &Files{Package: v.Import}
	if _, err := os.Stat(folder); err == nil {
		return nil, fmt.Errorf("%s exists: choose another name, or remove it", folder)
	}
	if err := f.add(folder, sourcesOf(v.Package), v); err != nil {
		return nil, err
	}
	if module == ourModule {
		f.Next = "add the Module of " + f.Package + " to modules.All in modules/modules.go"
		return f, nil
	}
	return f, f.addProgram(root, dir, v)
}

func goModule(dir string) (root, module string, err error) {
	for root = dir; ; root = filepath.Dir(root) {
		text, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil {
			found := moduleLine.FindSubmatch(text)
			if found == nil {
				return "", "", fmt.Errorf("%s names no module: create it again with go mod init", filepath.Join(root, "go.mod"))
			}
			return root, string(found[1]), nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", "", err
		}
		if filepath.Dir(root) == root {
			return "", "", errors.New("there is no Go module here: make one with go mod init example.com/my-hub and go get " + ourModule)
		}
	}
}

// add renames files of the example into a folder, in the order of their names. It leaves out files of the program that exist.
func (f *Files) add(folder string, sources map[string]string, v values) error {
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		target := filepath.Join(folder, sources[source])
		if _, err := os.Stat(target); err == nil {
			continue
		}
		text, err := v.rename(source)
		if err != nil {
			return err
		}
		f.all = append(f.all, file{path: target, text: text})
	}
	return nil
}

func (v values) rename(source string) ([]byte, error) {
	text, err := examples.Quota.ReadFile(source)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", source, err)
	}
	renamed := strings.NewReplacer(
		ourModule+"/examples/quota/quota", v.Import,
		"Package quota is the module quota.", "Package "+v.Package+" is the module "+v.Name+".",
		"package quota", "package "+v.Package, "quota.Module", v.Package+".Module", "TestQuota", "TestModule",
		"quota-hub", v.Program, "modules and quota.", "modules and "+v.Name+".",
		`"quota`, `"`+v.Name, "clusterfx-quota", "clusterfx-"+v.Name,
	).Replace(string(text))
	if !v.Licensed {
		renamed = strings.TrimPrefix(renamed, "// SPDX-License-Identifier: Apache-2.0\n\n")
	}
	if path.Ext(source) != ".go" {
		return []byte(renamed), nil
	}
	formatted, err := format.Source([]byte(renamed)) // The order of imports and the alignment of columns depend on the names.
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", source, err)
	}
	return formatted, nil
}

// Paths returns the paths of the files.
func (f *Files) Paths() []string {
	var all []string
	for _, one := range f.all {
		all = append(all, one.path)
	}
	return all
}

// Write writes the files. A new file that exists by then is an error.
func (f *Files) Write() error {
	for _, one := range f.all {
		if err := os.MkdirAll(filepath.Dir(one.path), 0o755); err != nil { //nolint:gosec // It is source code.
			return err
		}
		out, err := os.OpenFile(one.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // It is source code.
		if err != nil {
			return err
		}
		_, err = out.Write(one.text)
		if err = errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("write %s: %w", one.path, err)
		}
	}
	return nil
}

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
