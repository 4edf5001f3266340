// SPDX-License-Identifier: Apache-2.0

package command

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
)

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
	root.SetFlagErrorFunc(arguments.ExplainFlag)
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: p.name()}
	addGroup(root, "Remotes:", newRegister(p), newDeregister(p), newRotate(p), newPause(p), newResume(p))
	addGroup(root, "State and problems:", newGet(p), newDescribe(p), newCheck(p), newDeletes(p), newSync(p), newEntity(p), newGraph(p))
	addGroup(root, "The hub:", append(newDev(p), newInstall(p), newRBAC(p), newRun(p), newConfig(p), newDrain(p))...)
	root.AddCommand(newNew(p), newCompletion(p), newVersion(p))
	return root
}

// addGroup adds commands that help texts list under a title.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// pluginPrefix is the beginning of the names of kubectl's plugins.
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
