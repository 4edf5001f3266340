// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
)

// addProgram adds the program of a hub, and the files for its image, to the root of a Go module without Go files.
func (f *Files) addProgram(root, dir string, v values) error {
	f.Next = "add the Module of " + f.Package + " to the call of app.Main in the program of your hub"
	if has, err := hasCode(root); err != nil || has {
		return err
	}
	f.Next = "go run . dev starts the hub with two remotes; " + project.OwnHub + " says how to install it from an image"
	if root != dir {
		above, err := filepath.Rel(dir, root)
		if err != nil {
			return fmt.Errorf("find the way from %s to %s: %w", dir, root, err)
		}
		f.Next = "cd " + above + " && " + f.Next
	}
	program := map[string]string{}
	for _, name := range []string{"main.go", "Dockerfile", "Makefile", ".dockerignore", ".gitignore"} {
		program["quota/"+name] = name
	}
	return f.add(root, program, v)
}

func hasCode(root string) (has bool, err error) {
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if has = has || filepath.Ext(path) == ".go"; has {
			return fs.SkipAll
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for Go files: %w", err)
	}
	return has, nil
}
