// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
)

const deregisterExample = `  # Undo a registration
  %s deregister edge-eu-1 --cluster-context edge-eu-1-admin

  # Show the objects that it would delete
  %s deregister edge-eu-1 --cluster-context edge-eu-1-admin --dry-run=server

  # The remote is gone
  %s deregister edge-eu-1 --force --yes`

func newDeregister(p Program) *cobra.Command {
	var remote access.RemoteFlags
	var todo enroll.Deregistration
	var dry string
	var s *session
	cmd := &cobra.Command{
		Use:   "deregister NAME",
		Short: "Undo a registration, in the hub and in the remote",
		Long: "Undo a registration: delete the Cluster, which has the modules clean up in the remote, then the hub's\n" +
			"account in the remote, and the Secret. It prints its plan and asks for confirmation. If register\n" +
			"did not create the Secret of the Cluster, deregister deletes only the Cluster, and the Secret if the hub has\n" +
			"created the Cluster from it.\n\n" +
			connectionHelp + "\n\n" + exitCodes,
		Example: p.example(deregisterExample),
		Args:    arguments.Some("the name of the Cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			mode, bad := parseDryRun(dry)
			name, err := oneCluster(args)
			if err := errors.Join(bad, err); err != nil {
				return err
			}
			if err := s.placeHub(&todo.Place, name); err != nil {
				return err
			}
			if remote.Given() {
				if todo.Remote, err = remote.Remote(); err != nil {
					return err
				}
			}
			return deregister(ctx, s, &todo, mode)
		},
	}
	set := cmd.Flags()
	remote.Bind(set)
	set.BoolVar(&todo.Force, "force", false, "Leave the account in the remote if that cannot be reached (default false)")
	bindPlace(cmd, &todo.Place, nil)
	bindDryRun(cmd, &dry)
	s = p.newSession(cmd)
	s.hub.BindNamespace(set)
	s.bind(set)
	s.introduce(&remote)
	cmd.ValidArgsFunction = s.completeClusters(false)
	complete(cmd, "cluster-context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return remote.Contexts(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func deregister(ctx context.Context, s *session, todo *enroll.Deregistration, mode dryRun) error {
	if err := todo.Prepare(ctx); err != nil {
		return err
	}
	if mode != dryRunClient {
		if err := todo.RequireRights(ctx); err != nil {
			return err
		}
	}
	if mode != dryRunNone {
		todo.Plan()
		return s.terminal.Print("cluster.clusterfx.dev/%s deregistered (dry run)", todo.Name)
	}
	if err := todo.Run(ctx); err != nil {
		return err
	}
	return s.terminal.Print("cluster.clusterfx.dev/%s deregistered", todo.Name)
}

// placeHub fills in where a command works, but for the remote.
func (s *session) placeHub(place *enroll.Place, name string) (err error) {
	place.Terminal, place.Name, place.Namespace = s.terminal, name, s.hub.Namespace
	place.Hub, err = s.hub.Hub()
	return err
}
