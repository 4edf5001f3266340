// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"go/token"
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

//go:embed templates/* templates/.dockerignore.tmpl
var templates embed.FS

// Files are what is to be written, in order.
type Files struct {
	// Package is the import path of the module's package, and Folder its path below the current folder.
	Package, Folder string
	// HasProgram says that main.go was written, too, and the files for an image.
	HasProgram bool

	all []file
}

type file struct {
	path string
	text []byte
}

// values are what templates ask for.
type values struct {
	Name, Package, Import, Program, License string
}

var moduleName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`)

// moduleLine is the line of a go.mod that names the module.
var moduleLine = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)"?`)

// taken are names of packages that the files import.
func taken() []string {
	return []string{
		"main", "client", "config", "context", "corev1", "corev1ac", "ctrl", "errors", "fmt", "fx", "handler", "hubtest", "metav1", "modules",
		"os", "rbacv1", "registry", "testing",
	}
}

// Module returns the files of a module with this name, for the Go module that a folder is in.
func Module(name, dir string) (*Files, error) {
	v := values{Name: name, Package: strings.ReplaceAll(name, "-", "")}
	if !moduleName.MatchString(name) || token.IsKeyword(v.Package) || slices.Contains(taken(), v.Package) {
		return nil, fmt.Errorf("%q is not a name for a module: use 2 to 32 of a-z, 0-9 and '-' that are no word of Go and no package that a "+
			"module imports, such as tenant-quota", name)
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
	sources := map[string]string{
		"doc.go.tmpl": "doc.go", "fx.go.tmpl": "fx.go", "config.go.tmpl": "config.go", "reconciler.go.tmpl": v.Package + ".go",
		"module_test.go.tmpl": v.Package + "_test.go",
	}
	if err := f.add(folder, sources, v); err != nil {
		return nil, err
	}
	programs, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil || len(programs) > 0 || module == ourModule {
		return f, err
	}
	f.HasProgram = true
	return f, f.add(root, map[string]string{
		"main.go.tmpl": "main.go", "Dockerfile.tmpl": "Dockerfile", "Makefile.tmpl": "Makefile", ".dockerignore.tmpl": ".dockerignore",
	}, v)
}

// goModule returns the root of the Go module that a folder is in, and its path.
func goModule(dir string) (root, module string, err error) {
	if root, err = filepath.Abs(dir); err != nil {
		return "", "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil {
			found := moduleLine.FindSubmatch(text)
			if found == nil {
				return "", "", fmt.Errorf("%s names no module: make it anew with go mod init", filepath.Join(root, "go.mod"))
			}
			return root, string(found[1]), nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", "", err
		}
		parent := filepath.Dir(root)
		if parent == root {
			return "", "", errors.New("there is no Go module here: make one with go mod init example.com/my-hub and go get " + ourModule)
		}
		root = parent
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
		parsed, err := template.ParseFS(templates, "templates/"+name)
		if err != nil {
			return fmt.Errorf("read the template of %s: %w", sources[name], err)
		}
		var text bytes.Buffer
		if err := parsed.Execute(&text, v); err != nil {
			return fmt.Errorf("write %s: %w", sources[name], err)
		}
		source := text.Bytes()
		if filepath.Ext(target) == ".go" { // What stands in a column depends on the names.
			if source, err = format.Source(source); err != nil {
				return fmt.Errorf("format %s: %w", sources[name], err)
			}
		}
		f.all = append(f.all, file{target, source})
	}
	return nil
}

// Paths returns the paths of the files.
func (f *Files) Paths() []string {
	var all []string
	for _, one := range f.all {
		all = append(all, one.path)
	}
	return all
}

// Write writes the files. One that exists by then is an error.
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
