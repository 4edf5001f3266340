// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/objectsync"
)

const syncDiffExample = `  # What the rules of a file would change
  %s sync diff --config hub.yaml

  # One rule, in one remote
  %s sync diff pull-secrets --remote edge-eu-1`

func newSyncDiff(p Program) *cobra.Command {
	var f syncFlags
	var form inspect.Form
	var scope objectsync.Scope
	cmd := &cobra.Command{
		Use:   "diff [RULE...]",
		Short: "Show what the rules would write now",
		Long: "Show, for each rule and each remote that runs the module sync, the objects that the hub would create, adopt, update,\n" +
			"replace or delete, those whose name belongs to another object (Blocked), and those that the target or a patch rejects.\n" +
			"Nothing is written: each write is a dry run in the target, with its webhooks. The command reads whole objects, and\n" +
			"prints the paths of fields without values. A running hub writes within seconds, so a difference that stays is held by\n" +
			"something: by a pause, the mode Observe, a limit, or a missing permission.\n\n" + syncTruth + "\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(syncDiffExample),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := form.Format.Check(); err != nil {
				return err
			}
			fleet, err := f.fleet(cmd.Context(), false)
			if err != nil {
				return err
			}
			scope.Rules = args
			all, err := fleet.Diff(cmd.Context(), scope)
			if err != nil {
				return err
			}
			if len(all) == 0 && form.Format.Tabular() {
				f.session.terminal.Text("No differences found.")
				return nil
			}
			return objectsync.PrintChanges(all, form, f.session.terminal.Out)
		},
	}
	form.Format.Bind(cmd.Flags(), "")
	cmd.Flags().StringSliceVar(&scope.Clusters, "remote", nil, "Only the remote of this Cluster. Repeatable. Default: all")
	form.Tables.Bind(cmd.Flags())
	f.bindRemotes(cmd.Flags())
	f.bind(p, cmd)
	complete(cmd, "output", completeFixed("json", "yaml", "name", "wide", "jsonpath=", "go-template="))
	f.completeRemote(cmd)
	return cmd
}
