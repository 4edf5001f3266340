// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/objectsync"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

func newSyncPrune(p Program) *cobra.Command {
	var f syncFlags
	var todo objectsync.Prune
	var kinds []string
	cmd := &cobra.Command{
		Use:   "prune RULE",
		Short: "Delete the copies and finalizers that a removed rule has left",
		Long: "Delete the copies that a removed rule has left in the hub and in remotes, also in those that are paused or no longer\n" +
			"select the module, and remove the finalizer of the rule from its originals, which cannot be deleted otherwise.\n" +
			"Copies are found by the label sync.clusterfx.dev/managed-by, in all kinds that can be listed and deleted; originals\n" +
			"are searched in the kinds of the copies that are found, or in those of --kind. An object is deleted only if its\n" +
			"marks name the object itself, and only if it has not changed since it was found; all other objects stay. The\n" +
			"command prints what it has found in a cluster, and asks for confirmation.\n\n" +
			"A rule that the configuration has is refused, except with --dry-run. The hub's account in a remote may lack\n" +
			"permissions for kinds that no rule has any longer: use an account of your own with --cluster-context.\n\n" + syncTruth + "\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(syncPruneExample),
		Args:    output.OneName("the name of a rule"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			todo.Rule, todo.Terminal = args[0], f.session.terminal
			for _, text := range kinds {
				kind, err := parseKind(text)
				if err != nil {
					return err
				}
				todo.Kinds = append(todo.Kinds, kind)
			}
			if f.remote.Given() && len(todo.Clusters) != 1 {
				return errors.New("--cluster-context leads to one remote: say which Cluster it is with --remote NAME")
			}
			if todo.Fleet, err = f.fleet(cmd.Context(), todo.Force); err != nil {
				return err
			}
			n, err := todo.Run(cmd.Context())
			if err != nil {
				return err
			}
			done := "pruned"
			if todo.DryRun {
				done = "pruned (dry run)"
			}
			return f.session.terminal.Print("rule/%s %s: %d objects", todo.Rule, done, n)
		},
	}
	set := cmd.Flags()
	set.StringSliceVar(&todo.Clusters, "remote", nil, "Only the remote of this Cluster, and copies from it in the hub. It need not exist any longer. Repeatable. Default: all")
	set.StringSliceVar(&kinds, "kind", nil, "Only this kind, as in v1/Secret or apps/v1/Deployment. Repeatable. Default: all")
	set.BoolVar(&todo.Force, "force", false, "Also if the configuration has the rule or is unknown; a hub with the rule makes the copies again (default false)")
	set.BoolVar(&todo.DryRun, "dry-run", false, "Only print what would be deleted (default false)")
	set.BoolVarP(&todo.Yes, "yes", "y", false, "Do not ask for confirmation (default false)")
	f.remote.Bind(set)
	f.bindRemotes(set)
	f.bind(p, cmd, &f.remote)
	f.completeRemote(cmd)
	return cmd
}

func newSyncRelease(p Program) *cobra.Command {
	var f syncFlags
	var todo objectsync.Release
	var kind string
	cmd := &cobra.Command{
		Use:   "release RULE [NAME...] --remote NAME",
		Short: "Release objects of the hub that are being deleted and wait for a remote that is away",
		Long: "Remove the finalizer of a rule from objects of the hub that are being deleted, without waiting until their copies in\n" +
			"the remote have gone. Without names, it releases all objects that wait for the remote. It prints its plan and\n" +
			"asks for confirmation. An event says which copy stays. If the remote returns, and the rule is still there, the hub\n" +
			"deletes the copy.\n\n" +
			"A remote that the hub reaches is refused. For a rule that was removed, name the kind and the namespace of the objects.\n\n" +
			connectionHelp + "\n\n" + exitCodes,
		Example: p.example(syncReleaseExample),
		Args:    output.Some("the name of a rule"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			todo.Rule, todo.Objects, todo.Terminal = args[0], args[1:], f.session.terminal
			if err := requireRemote(todo.Cluster); err != nil {
				return err
			}
			if (kind == "") != (todo.Namespace == "") {
				return errors.New("--kind and --namespace go together, for a rule that was removed")
			}
			if kind != "" {
				if todo.Kind, err = parseKind(kind); err != nil {
					return err
				}
			}
			if todo.Fleet, err = f.fleet(cmd.Context(), kind != ""); err != nil {
				return err
			}
			if err := todo.Prepare(cmd.Context()); err != nil {
				return err
			}
			if err := todo.Run(cmd.Context()); err != nil {
				return err
			}
			done := "released"
			if todo.DryRun {
				done = "released (dry run)"
			}
			return f.session.terminal.Print("rule/%s %s: %d objects", todo.Rule, done, todo.Count())
		},
	}
	set := cmd.Flags()
	set.StringVar(&todo.Cluster, "remote", "", "The Cluster whose remote is away. It need not exist any longer. Required")
	set.StringVar(&kind, "kind", "", "For a rule that was removed: the kind of the objects, as in v1/Secret")
	set.StringVar(&todo.Namespace, "namespace", "", "For a rule that was removed: the namespace of the objects")
	set.BoolVar(&todo.Force, "force", false, "Also if the hub reaches the remote (default false)")
	set.BoolVar(&todo.DryRun, "dry-run", false, "Only print what would be released (default false)")
	set.BoolVarP(&todo.Yes, "yes", "y", false, "Do not ask for confirmation (default false)")
	f.bind(p, cmd)
	f.completeRemote(cmd)
	return cmd
}

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
