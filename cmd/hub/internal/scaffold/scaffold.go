// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// ourModule is the Go module of clusterfx.
const ourModule = "github.com/clusterfx/clusterfx"

//go:embed templates/* templates/.dockerignore.tmpl templates/.gitignore.tmpl
var templates embed.FS

// Files are the files to write, in order.
type Files struct {
	// Package is the import path of the module's package, and Folder its path below the current folder.
	Package, Folder string
	// HasProgram says that main.go is written, too, and the files for an image.
	HasProgram bool
	// Next says how the module gets into a hub.
	Next string

	all []file
}

type file struct {
	path string
	text []byte
	// appends says that the text goes to the end of a file that exists.
	appends bool
}

// values are the values for templates.
type values struct {
	Name, Package, Import, Program, License string
}

// moduleLine is the line of a go.mod that names the module.
var moduleLine = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)"?`)

// sourcesOf returns the templates of a module's package, and the files that they become.
func sourcesOf(pkg string) map[string]string {
	return map[string]string{
		"doc.go.tmpl": "doc.go", "fx.go.tmpl": "fx.go", "config.go.tmpl": "config.go", "reconciler.go.tmpl": pkg + ".go",
		"module_test.go.tmpl": pkg + "_test.go",
	}
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
	f := &Files{Folder: v.Package}
	if module == ourModule {
		v.License = "// SPDX-License-Identifier: Apache-2.0\n\n"
		dir, f.Folder = root, filepath.Join("modules", v.Package)
	}
	in, err := filepath.Rel(root, filepath.Join(dir, f.Folder))
	if err != nil {
		return nil, fmt.Errorf("find the package of %s: %w", f.Folder, err)
	}
	v.Import, v.Program = path.Join(module, filepath.ToSlash(in)), path.Base(module)
	f.Package = v.Import
	folder := filepath.Join(dir, f.Folder)
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

// goModule returns the root of the Go module that a folder is in, and its path.
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

// add renders templates into a folder, in the order of their names. It leaves out files of the program that exist.
func (f *Files) add(folder string, sources map[string]string, v values) error {
	var names []string
	for name := range sources {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		target := filepath.Join(folder, sources[name])
		if _, err := os.Stat(target); err == nil {
			continue
		}
		text, err := render(name, sources[name], v)
		if err != nil {
			return err
		}
		f.all = append(f.all, file{path: target, text: text})
	}
	return nil
}

// render returns the text of the file that a template becomes.
func render(name, target string, v values) ([]byte, error) {
	parsed, err := template.ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, fmt.Errorf("read the template of %s: %w", target, err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, v); err != nil {
		return nil, fmt.Errorf("write %s: %w", target, err)
	}
	if filepath.Ext(target) != ".go" {
		return text.Bytes(), nil
	}
	source, err := format.Source(text.Bytes()) // The alignment of columns depends on the names.
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", target, err)
	}
	return source, nil
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
		flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
		if one.appends {
			flags = os.O_WRONLY | os.O_APPEND
		}
		out, err := os.OpenFile(one.path, flags, 0o644) //nolint:gosec // It is source code.
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
