// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

const getModulesExample = `  # The modules of this program, and in how many Clusters they run
  %s get modules

  # Where a module does not run
  %s get modules inventory -o wide`

func newGet(p Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get",
		Short:   "List modules",
		Long:    "List modules. kubectl get fxc lists the Clusters, and kubectl get lease the replicas of the hub.",
		Example: p.example("  %s get modules"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return fmt.Errorf("%q is not a kind of thing that can be had: use modules, or kubectl get fxc for Clusters", args[0])
		},
	}
	// The flags belong to the commands below it: the error is the kind.
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.AddCommand(newGetModules(p))
	return cmd
}

func newGetModules(p Program) *cobra.Command {
	var f output.Format
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:     "modules [NAME...]",
		Aliases: []string{"module"},
		Short:   "List modules, and in how many Clusters they run",
		Long: "List the modules of this program and the other modules that Clusters name. For each module, print the number\n" +
			"of Clusters that run it, the number of Clusters that should run it, and the state of its hub part with the\n" +
			"time since when it is that.\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(getModulesExample),
		RunE: s.onHub(func(cmd *cobra.Command, hub *access.Cluster, args []string) error {
			known := map[string]string{}
			for _, m := range p.Modules {
				known[m.Name()] = m.Description()
			}
			return inspect.Modules{
				Hub: hub, Known: known, Names: args, Namespace: s.hub.Namespace,
			}.Print(cmd.Context(), f, s.terminal.Out)
		}),
		ValidArgsFunction: p.completeModules,
	}
	f.BindList(cmd.Flags())
	s.bind(cmd, true)
	return cmd
}

const describeExample = `  # Show the full state of a remote
  %s describe edge-eu-1`

func newDescribe(p Program) *cobra.Command {
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:   "describe NAME...",
		Short: "Show Clusters in full, with their conditions, modules and last events",
		Long: "Show Clusters in full, as a tree: the spec and the identity of each, its conditions, the modules of its app with their\n" +
			"controllers, and its last events. A controller that does not run says for which objects it waits, and why;\n" +
			"while an app starts, that is known after ten seconds.\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(describeExample),
		Args:    output.Some("the name of a Cluster"),
		RunE: s.onHub(func(cmd *cobra.Command, hub *access.Cluster, args []string) error {
			var errs []error
			for _, name := range args {
				tree, err := inspect.Describe(cmd.Context(), hub, name)
				if err == nil {
					err = s.terminal.Tree(tree)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		}),
	}
	s.bind(cmd, false)
	cmd.ValidArgsFunction = s.completeClusters(true)
	return cmd
}
