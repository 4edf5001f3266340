// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/objectsync"
)

const syncDiffExample = `  # What the rules of a file would change
  %s sync diff --config hub.yaml

  # One rule, in one remote
  %s sync diff pull-secrets --remote edge-eu-1`

func newSyncDiff(p Program) *cobra.Command {
	var f syncTable
	cmd := &cobra.Command{
		Use:   "diff [RULE...]",
		Short: "Show what the rules would write now",
		Long: "Show, for each rule and each remote that runs the module sync, the objects that the hub would create, adopt, update,\n" +
			"replace or delete, those whose name belongs to another object (Blocked), and those that the target or a patch rejects.\n" +
			"Nothing is written: each write is a dry run in the target, with its webhooks. The command reads whole objects, and\n" +
			"prints the paths of fields without values. A running hub writes within seconds; a difference stays if the Cluster is\n" +
			"paused, the rule only observes, or a limit holds the write. Limits are not considered here.\n\n" + syncTruth + "\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(syncDiffExample),
		RunE: func(cmd *cobra.Command, args []string) error {
			fleet, err := f.open(cmd.Context(), args)
			if err != nil {
				return err
			}
			all, err := fleet.Diff(cmd.Context(), f.scope)
			if err != nil {
				return err
			}
			if len(all) == 0 && f.form.Format.Tabular() {
				f.session.terminal.Text("No differences found.")
				return nil
			}
			return objectsync.PrintChanges(all, f.form, f.session.terminal.Out)
		},
	}
	f.bind(p, cmd)
	return cmd
}
