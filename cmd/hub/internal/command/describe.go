// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
)

const describeExample = `  # Show the full state of a remote
  %s describe cluster edge-eu-1
  %s describe edge-eu-1`

func newDescribe(p Program) *cobra.Command {
	var s *session
	cmd := &cobra.Command{
		Use:   "describe [cluster] NAME...",
		Short: "Show Clusters in full, with their conditions, modules and last events",
		Long: "Show Clusters in full, as a tree: the spec and the identity of each, its conditions, the modules of its app with their\n" +
			"controllers, and its last events. A controller that does not run says for which objects it waits, and why;\n" +
			"while an app starts, that is known after ten seconds.\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(describeExample),
		Args:    arguments.Some("the name of a Cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := inspect.NamesOf(args)
			if err != nil {
				return err
			}
			hub, err := s.hub.Hub()
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range names {
				tree, err := inspect.Describe(cmd.Context(), hub, name)
				if err == nil {
					err = s.terminal.Tree(tree)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	s = p.newSession(cmd)
	s.bind(cmd.Flags())
	cmd.ValidArgsFunction = s.completeClusters(true)
	return cmd
}
