// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/examples"
)

// hubPackage is the package that every program of a hub imports.
const hubPackage = ourModule + "/cmd/hub/app"

const ignoreFile = ".gitignore"

// addProgram adds the program of a hub, and the files for its image, to the root of a Go module that has no such program and
// no Go files in its root.
func (f *Files) addProgram(root, dir string, v values) error {
	f.Next = "add the Module of " + f.Package + " to the call of app.Main in the program of your hub"
	sources, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil || len(sources) > 0 {
		return err
	}
	if has, err := hasHub(root); err != nil || has {
		return err
	}
	f.HasProgram = true
	f.Next = "go run . dev starts the hub with two remotes; " + project.OwnHub + " says how to install it from an image"
	if root != dir {
		above, err := filepath.Rel(dir, root)
		if err != nil {
			return fmt.Errorf("find the way from %s to %s: %w", dir, root, err)
		}
		f.Next = "cd " + above + " && " + f.Next
	}
	program := map[string]string{}
	for _, name := range []string{"main.go", "Dockerfile", "Makefile", ".dockerignore", ignoreFile} {
		program["quota/"+name] = name
	}
	if err := f.add(root, program, v); err != nil {
		return err
	}
	return f.ignore(filepath.Join(root, ignoreFile))
}

// hasHub reports whether a package main of a Go module imports hubPackage.
func hasHub(root string) (bool, error) {
	found := false
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && outside(path):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		if found = isHub(path); found {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look for the program of a hub: %w", err)
	}
	return found, nil
}

// outside reports whether the go command leaves out a folder of a Go module.
func outside(folder string) bool {
	name := filepath.Base(folder)
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil || name == "vendor" || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// isHub reports whether a file is part of the program of a hub. A file that is not Go is none.
func isHub(path string) bool {
	source, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	return err == nil && source.Name.Name == "main" && slices.ContainsFunc(source.Imports, func(one *ast.ImportSpec) bool {
		return one.Path.Value == strconv.Quote(hubPackage)
	})
}

// ignore adds the lines that a .gitignore lacks: the folder .hub has the keys of administrators while the command dev runs.
func (f *Files) ignore(target string) error {
	old, err := os.ReadFile(target)
	if errors.Is(err, os.ErrNotExist) {
		return nil // It is written whole.
	}
	if err != nil {
		return err
	}
	wanted, err := examples.Quota.ReadFile("quota/" + ignoreFile)
	if err != nil {
		return fmt.Errorf("read %s of the example: %w", ignoreFile, err)
	}
	var missing []byte
	if len(old) > 0 && !bytes.HasSuffix(old, []byte("\n")) {
		missing = append(missing, '\n')
	}
	before := len(missing)
	for line := range strings.Lines(string(wanted)) {
		there := func(other string) bool { return strings.Trim(other, "/ \r") == strings.Trim(line, "/\n") }
		if !slices.ContainsFunc(strings.Split(string(old), "\n"), there) {
			missing = append(missing, line...)
		}
	}
	if len(missing) > before {
		f.all = append(f.all, file{path: target, text: missing, appends: true})
	}
	return nil
}
