// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/e2e/fleet"
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

// RunHub runs a hub against config until ctx ends.
type RunHub func(ctx context.Context, config *rest.Config, at Addresses) error

// Addresses may be empty: that of a NATS server, and that of the listener for agents.
type Addresses struct{ NATS, Tunnel string }

// Hub is a hub that was prepared, with its modules and the policy of its flags.
type Hub struct {
	Run     RunHub
	Modules []registry.Module
	// Grant gives an account of the hub's cluster the hub's permissions, as an administrator.
	Grant func(ctx context.Context, admin client.Client, account rbacv1.Subject) error
	// Args are the program's arguments as a replica of the hub, in a process of its own.
	Args   func(Replica) []string
	Policy kubeconfig.Policy
	// Unused are flags in the configuration file that dev does not use.
	Unused []string
}

const examples = `  # Two remotes, until Ctrl-C
  %s dev

  # Five remotes in the background, and the end of them
  %s dev --clusters 5 --detach
  %s dev down

  # With the configuration that the hub will have, and objects for its modules
  %s dev --config hub.yaml --apply objects.yaml

  # Three replicas of the hub that share the Clusters
  %s dev --replicas 3

  # With remotes of other versions of Kubernetes
  %s dev --kubernetes 1.36,1.30,1.37 --clusters 3

  # With a NATS server, for modules with entities
  %s dev --nats

  # With remotes that the hub cannot reach: their agents connect to it
  %s dev --tunnel

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
			"kubectl and the other commands of this program find the hub and its remotes, by their contexts, in the kubeconfig that\n" +
			"dev writes: export KUBECONFIG as it says. The commands need none of the hub's flags.\n\n" +
			"With --config the hub uses the modules' configuration and the flags of a file, except the flags for the hub's\n" +
			"cluster, its addresses and its identity. The hub may connect to this machine, where its remotes are: a\n" +
			"deny-cidr that covers loopback is an error.\n\n" +
			"With --replicas above 1 the hub has that number of processes, hub-0 and so on, with their names before the lines\n" +
			"of the log. A replica that ends is reported and not started again; the others take over its Clusters. dev fails\n" +
			"when the last one has ended.",
		Example: strings.ReplaceAll(examples, "%s", p.Name),
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
			t := output.NewTerminal(nil, p.Stdout, p.Stderr)
			return report(t, down(cmd.Context(), o.dataDir, t))
		},
	}
}

// up runs a demo in the foreground, or in the background for another dev.
func (p Program) up(ctx context.Context, o options) error {
	t := output.NewTerminal(nil, p.Stdout, p.Stderr)
	d := &demo{options: o, program: p, terminal: t}
	return report(t, d.run(ctx))
}

// errFailed is of a command that has printed its error.
const errFailed = process.ExitError(1)

func report(t *output.Terminal, err error) error {
	if err == nil {
		return nil
	}
	t.Say(output.Failure, "%v", err)
	return errFailed
}

type options struct {
	clusters, nodes int
	replicas        int
	provider, image string
	kubernetes      []string // versions of the API servers; empty for the pinned one
	config, apply   string
	next            string // the configuration of a rehearsal
	dataDir         string
	timeout         time.Duration
	nats, tunnel    bool
	verbose, detach bool
	rehearse        bool
	exitAfterReady  bool
	background      bool // it was started with --detach
}

// maxClusters is as many as get names; a machine gives up before.
const maxClusters = 99

// maxReplicas is more than a machine needs to show how replicas share Clusters.
const maxReplicas = 9

const defaultDataDir = ".hub"

const backgroundFlag = "background"

func (o *options) bind(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&o.dataDir, "data-dir", defaultDataDir,
		"Folder for the clusters' data, the kubeconfig and the hub's log")
	set := cmd.Flags()
	set.SortFlags = false
	set.IntVar(&o.clusters, "clusters", 2, "Number of remotes")
	set.IntVar(&o.nodes, "nodes", 3, "Number of simulated Nodes in each remote, with some simulated Pods on each")
	set.IntVar(&o.replicas, "replicas", 1,
		"Number of replicas of the hub. With more than one, each is a process, and they share the Clusters as with run --active-replicas=0")
	set.StringVar(&o.provider, "provider", string(fleet.Processes),
		"How to run the clusters: processes (kube-apiserver and etcd on this machine) or kind (nodes in Docker)")
	set.StringSliceVar(&o.kubernetes, "kubernetes", nil, "Versions of Kubernetes, such as 1.30,1.37: the hub's cluster has the first, "+
		"and the remotes have them in turn. Default: "+fleet.KubernetesVersion)
	set.StringVar(&o.image, "image", "", "Node image for kind. Default: the default image of kind")
	set.StringVar(&o.config, "config", "", "File of kind HubConfiguration for the hub, as run --config reads it. Default: none")
	set.StringVar(&o.apply, "apply", "", "File of objects that are applied to the hub's cluster before the hub starts. Default: none")
	set.BoolVar(&o.nats, "nats", false, "Start a NATS server, too, for modules with entities, and create the buckets that they follow (default false)")
	set.BoolVar(&o.tunnel, "tunnel", false, "Reach the remotes through tunnels: their agents connect to the hub (default false)")
	set.DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long the remotes may take to become Ready")
	set.BoolVar(&o.verbose, "verbose", false, "Print the hub's log instead of writing it to a file (default false)")
	set.BoolVar(&o.detach, "detach", false, "Leave everything running in the background; dev down stops it (default false)")
	set.BoolVar(&o.rehearse, "rehearse", false, "Rehearse the hub once the remotes are Ready (default false)")
	set.StringVar(&o.next, "rehearse-config", "", "File of kind HubConfiguration of the next version, which is rehearsed, too. Default: none")
	set.BoolVar(&o.exitAfterReady, "exit-after-ready", false, "Stop everything once all remotes are Ready (default false)")
	set.BoolVar(&o.background, backgroundFlag, false, "Set by --detach for the process in the background")
	_ = set.MarkHidden(backgroundFlag) // It fails for unknown flags only.
}

// problems are what is wrong with the flags.
type problems []error

func (p *problems) refuse(bad bool, format string, args ...any) {
	if bad {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

func (o *options) validate(set *pflag.FlagSet) error {
	var p problems
	p.refuse(o.clusters < 1 || o.clusters > maxClusters, "--clusters=%d: use 1 to %d", o.clusters, maxClusters)
	p.refuse(o.nodes < 0 || o.nodes > 1000, "--nodes=%d: use 0 to 1000", o.nodes)
	p.refuse(o.replicas < 1 || o.replicas > maxReplicas, "--replicas=%d: use 1 to %d", o.replicas, maxReplicas)
	p.refuse(o.replicas > 1 && (o.nats || o.tunnel), "--nats is for one replica, and so is --tunnel: leave out --replicas, or them")
	p.refuse(o.timeout <= 0, "--timeout=%s: use a time above zero", o.timeout)
	p.refuse(o.detach && o.exitAfterReady, "--detach leaves everything running, and --exit-after-ready stops it: leave one of them out")
	p.refuse(o.detach && o.verbose, "--detach has no terminal for the log of --verbose: leave one of them out")
	p.refuse(o.dataDir == "", "--data-dir is empty: name a folder")
	o.validateProvider(set, &p)
	return errors.Join(p...)
}

// validateProvider checks the flags that depend on how the clusters run.
func (o *options) validateProvider(set *pflag.FlagSet, p *problems) {
	switch fleet.Provider(o.provider) {
	case fleet.Processes:
		p.refuse(o.image != "", "--image is for --provider kind: leave it out")
		err := o.findVersions()
		p.refuse(err != nil, "--kubernetes: %w", err)
	case fleet.Kind:
		p.refuse(set.Changed("nodes"), "--nodes is for simulated Nodes, and the Nodes of kind are real: leave it out")
		p.refuse(len(o.kubernetes) > 0, "--kubernetes is for processes: use --image, which names the node image of kind")
		o.nodes = 0
	default:
		p.refuse(true, "--provider=%q: use %s or %s", o.provider, fleet.Processes, fleet.Kind)
	}
}

// findVersions replaces minors by versions that have been built.
func (o *options) findVersions() error {
	for i, minor := range o.kubernetes {
		version, err := fleet.VersionOf(strings.TrimSpace(minor))
		if err != nil {
			return err
		}
		if !fleet.HasVersion(version) {
			return fmt.Errorf("%s has not been built: run make controlplane KUBERNETES=%s", version, minor)
		}
		o.kubernetes[i] = version
	}
	return nil
}

// version is that of the cluster with a number; the hub's is 0.
func (o *options) version(number int) string {
	if len(o.kubernetes) == 0 {
		return ""
	}
	return o.kubernetes[max(0, number-1)%len(o.kubernetes)]
}

// self runs this program again: its name, or the go run that has built it and will remove it.
func self(name string) string {
	path, err := os.Executable()
	info, ok := debug.ReadBuildInfo()
	if err == nil && ok && strings.Contains(path, "/go-build") && info.Path != "" && !strings.HasSuffix(path, ".test") {
		return "go run " + info.Path
	}
	return name
}
