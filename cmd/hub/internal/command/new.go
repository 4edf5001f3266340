// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/scaffold"
)

const newExample = `  # In a Go module of your own
  %s new module tenants`

func newNew(p Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "new",
		Short:   "Write the files that a module begins with",
		Long:    "Write the files that a module begins with.",
		Example: p.example(newExample),
		Args:    output.None,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "module NAME",
		Short: "Write a module with its test into the Go module of this folder",
		Long: "Write a module with its test into the Go module of this folder: examples/quota of clusterfx by another name, with a\n" +
			"reconciler that works in every remote, a controller in the hub, a configuration, the permissions that it declares,\n" +
			"and the cleanup. It compiles and passes its test; change it to your needs. If no package main of the Go module imports github.com/clusterfx/clusterfx/cmd/hub/app, and its\n" +
			"root has no Go files, write the program of a hub with the module into the root, too, with a Dockerfile and a\n" +
			"Makefile that build and push its image. Files that exist stay as they are, but .gitignore gets the lines for\n" +
			"build results and for the folder .hub, in which dev keeps credentials.\n\n" +
			"In the repository of clusterfx the module is written into the folder modules.",
		Example: p.example(newExample),
		Args:    output.OneName("the name of the module"),
		RunE:    func(_ *cobra.Command, args []string) error { return p.newModule(args[0]) },
	})
	return cmd
}

func (p Program) newModule(name string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	files, err := scaffold.Module(name, dir)
	if err != nil {
		return err
	}
	if err := files.Write(); err != nil {
		return err
	}
	for _, path := range files.Paths() {
		if short, err := filepath.Rel(dir, path); err == nil {
			path = short
		}
		if _, err := fmt.Fprintln(p.Stdout, path); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(p.Stderr, "Next: go mod tidy && go test %s\n      %s\n", files.Package, files.Next)
	return err
}
