// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/scaffold"
	"github.com/clusterfx/clusterfx/registry"
)

// Program is a hub's command line: the arguments, the streams and the modules of the process.
type Program struct {
	Args           []string
	Stdout, Stderr io.Writer
	Modules        []registry.Module
	ObserveHub     func(*rest.Config) // called with the connection to the hub's cluster; may be nil
	// Collector is called before the hub runs, and returns Starting of process.Options; may be nil.
	Collector func() (starting func(remotes int))
	Stock     bool // this is the stock hub
}

// Execute runs the command that the arguments name, prints its error, and returns the exit status.
func Execute(ctx context.Context, p Program) int {
	root := newRoot(p)
	root.SetArgs(p.Args[1:])
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	err := output.ExplainCommand(root, p.Args[1:], root.ExecuteContext(ctx))
	var exit process.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	}
	_, _ = fmt.Fprintln(p.Stderr, "Error:", err)
	return 1
}

// newRoot returns the command line of a hub. It goes by the name of the program, which is the
// user's own if the hub is.
func newRoot(p Program) *cobra.Command {
	root := &cobra.Command{
		Use:   filepath.Base(p.Args[0]),
		Short: "A multicluster control plane in which every cluster is a dependency-injected application",
		// Errors are printed once, by execute, and a failure is no reason to explain the flags.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(output.ExplainFlag)
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: p.name()}
	addGroup(root, "Remotes:", newRegister(p), newAccept(p), newDeregister(p), newRotate(p), newPause(p), newResume(p))
	addGroup(root, "State and problems:", newGet(p), newDescribe(p), newCheck(p), newDeletes(p), newSync(p), newEntity(p), newGraph(p))
	addGroup(root, "The hub:", append(newDev(p), newInstall(p), newRBAC(p), newRun(p), newAgent(p), newRehearse(p), newConfig(p), newDrain(p))...)
	root.AddCommand(newNew(p), newVersion(p))
	completeWords(root)
	return root
}

func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// group returns a command that has others, and prints its help.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = output.None
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

const pluginPrefix = "kubectl-"

// name is the name by which the user runs the program: "kubectl clusterfx" if it is a link of that name on the PATH.
func (p Program) name() string {
	name := filepath.Base(p.Args[0])
	if plugin, ok := strings.CutPrefix(name, pluginPrefix); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return name
}

// example puts the name of the program for each %s of a text.
func (p Program) example(text string) string {
	return strings.ReplaceAll(text, "%s", p.name())
}

const newExample = `  # In a Go module of your own
  %s new module backup`

func newNew(p Program) *cobra.Command {
	return group(&cobra.Command{
		Use:     "new",
		Short:   "Write the files that a module begins with",
		Long:    "Write the files that a module begins with.",
		Example: p.example(newExample),
	}, &cobra.Command{
		Use:   "module NAME",
		Short: "Write a module with its test into the Go module of this folder",
		Long: "Write a module with its test into the Go module of this folder: examples/quota of clusterfx by another name, with a\n" +
			"reconciler that works in every remote, a controller in the hub, a configuration, the permissions that it declares,\n" +
			"and the cleanup. It compiles and passes its test; change it to your needs. If the Go module has no Go files yet, write\n" +
			"the program of a hub with the module into its root, too, with a Dockerfile and a Makefile that build and push its image.\n" +
			"Files that exist stay as they are.\n\n" +
			"In the repository of clusterfx the module is written into the folder modules.",
		Example: p.example(newExample),
		Args:    output.OneName("the name of the module"),
		RunE:    func(_ *cobra.Command, args []string) error { return p.newModule(args[0]) },
	})
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
