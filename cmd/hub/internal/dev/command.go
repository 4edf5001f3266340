// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Program is the program that dev is a command of.
type Program struct {
	Name string
	// Hub prepares a hub that logs to log, with the configuration file if there is one. It is called once, before
	// anything else may log.
	Hub func(log io.Writer, config string) (Hub, error)
	// Stdout gets results, Stderr progress.
	Stdout, Stderr io.Writer
}

// RunHub runs a hub against config until ctx ends. natsURL may be empty.
type RunHub func(ctx context.Context, config *rest.Config, natsURL string) error

// Hub is a hub that was prepared, with its modules and the policy of its flags.
type Hub struct {
	Run     RunHub
	Modules []registry.Module
	// Grant gives an account of the hub's cluster the hub's permissions, as an administrator. sharded is for replicas
	// that share the Clusters.
	Grant func(ctx context.Context, admin client.Client, account rbacv1.Subject, sharded bool) error
	// Args are the program's arguments as a replica of the hub, in a process of its own.
	Args   func(Replica) []string
	Policy kubeconfig.Policy
	// Unused are flags in the configuration file that dev does not use.
	Unused []string
}

// ErrFailed is returned by a command that has printed its error.
var ErrFailed = errors.New("dev failed")

const examples = `  # Two remotes, until Ctrl-C
  %s dev

  # Five remotes in the background, and the end of them
  %s dev --clusters 5 --detach
  %s dev down

  # With the configuration that the hub will have, and objects for its modules
  %s dev --config hub.yaml --apply objects.yaml

  # Three replicas of the hub that share the Clusters
  %s dev --replicas 3

  # With a NATS server, for modules with entities
  %s dev --nats

  # With real nodes, in Docker
  %s dev --provider kind`

// Command returns the command dev, with its subcommand down.
func Command(p Program) *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start a management cluster, remotes and a hub on this machine",
		Long: "Start a management cluster, remotes and a hub on this machine, from real Kubernetes binaries,\n" +
			"and stop everything on Ctrl-C. Remotes are registered by Secret. Nodes and Pods in them are simulated,\n" +
			"unless the clusters are made by kind.\n\n" +
			"The hub runs as a ServiceAccount with the permissions that rbac prints: the hub's own and the permissions that\n" +
			"its modules declare, in the hub's cluster and in the remotes. A module that does not declare a permission that\n" +
			"it needs waits as it would in production. The written kubeconfig is an administrator's.\n\n" +
			"Without --kubeconfig and $KUBECONFIG, the other commands of this program find the hub of a dev that runs in the\n" +
			"folder .hub of the current folder, and its remotes by their contexts. They need none of the hub's flags. They\n" +
			"refuse a context that ~/.kube/config has, too, and do not read the files in .hub, which may be part of a checkout.\n\n" +
			"With --config the hub uses the modules' configuration and the flags of a file, except the flags for the hub's\n" +
			"cluster, its addresses and its identity. The hub may connect to this machine, where its remotes are: a\n" +
			"deny-cidr that covers loopback is an error.\n\n" +
			"With --replicas above 1 the hub has that number of processes, hub-0 and so on, with their names before the lines\n" +
			"of the log. A replica that ends is reported and not started again; the others take over its Clusters. dev fails\n" +
			"when the last one has ended.",
		Example: p.replaceName(examples),
		Args:    output.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd.Flags()); err != nil {
				return err
			}
			if o.detach {
				return p.detach(cmd, o)
			}
			return p.up(cmd.Context(), o)
		},
	}
	o.bind(cmd)
	cmd.AddCommand(p.downCommand(&o))
	return cmd
}

func (p Program) downCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the hub and the clusters of dev --detach",
		Args:  output.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			progress := newPrinter(p.Stderr)
			return progress.report(down(cmd.Context(), o.dataDir, progress))
		},
	}
}

// up runs a demo in the foreground, or in the background for another dev.
func (p Program) up(ctx context.Context, o options) error {
	out, progress := newPrinter(p.Stdout), newPrinter(p.Stderr)
	if o.report != "" {
		out, progress = reportTo(o.report)
	}
	d := &demo{options: o, program: p, out: out, progress: progress}
	return progress.report(d.run(ctx))
}
