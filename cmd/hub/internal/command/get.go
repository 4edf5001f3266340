// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
)

const getModulesExample = `  # The modules of this program, and in how many Clusters they run
  %s get modules

  # Where a module does not run
  %s get modules inventory -o wide`

// newGet returns the command get, with a command below it for each thing that can be had.
func newGet(p Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "List modules or runners",
		Long:  "List modules, or the replicas of a hub that share its Clusters. The Clusters are listed by kubectl get fxc.",
		Example: p.example(`  %s get modules
  %s get runners`),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return fmt.Errorf("%q is not a kind of thing that can be had: use modules or runners, or kubectl get fxc for Clusters", args[0])
		},
	}
	// The flags belong to the commands below it: the error is the kind.
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.AddCommand(newGetModules(p), newGetRunners(p))
	return cmd
}

func newGetModules(p Program) *cobra.Command {
	var f inspect.Form
	var s *session
	cmd := &cobra.Command{
		Use:     "modules [NAME...]",
		Aliases: []string{"module"},
		Short:   "List modules, and in how many Clusters they run",
		Long: "List the modules of this program and the other modules that Clusters name. For each module, print the number\n" +
			"of Clusters that run it, the number of Clusters that should run it, and the state of its hub part with the\n" +
			"time since the leading hub reported it. Without a recent report the state is unknown.\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(getModulesExample),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.Format.Check(); err != nil {
				return err
			}
			hub, err := s.hub.Hub()
			if err != nil {
				return err
			}
			known := map[string]string{}
			for _, m := range p.Modules {
				known[m.Name()] = m.Description()
			}
			return inspect.Modules{
				Hub: hub, Known: known, Names: args, Namespace: s.hub.Namespace,
			}.Print(cmd.Context(), f, s.terminal.Out)
		},
		ValidArgsFunction: p.completeModules,
	}
	f.Format.Bind(cmd.Flags(), "")
	f.Tables.Bind(cmd.Flags())
	s = p.newSession(cmd)
	s.hub.BindNamespace(cmd.Flags())
	s.bind(cmd.Flags())
	complete(cmd, "output", completeFixed("json", "yaml", "name", "wide", "jsonpath=", "go-template="))
	return cmd
}
