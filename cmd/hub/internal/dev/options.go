// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

type options struct {
	clusters, nodes int
	replicas        int
	provider, image string
	config, apply   string
	dataDir         string
	timeout         time.Duration
	nats            bool
	verbose, detach bool
	exitAfterReady  bool
	report          string // how to write to the dev in the foreground; empty unless there is one
}

// maxClusters is as many as get names; a machine gives up before.
const maxClusters = 99

// maxReplicas is more than a machine needs to show how replicas share Clusters.
const maxReplicas = 9

const defaultDataDir = access.DevDir

func (o *options) bind(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&o.dataDir, "data-dir", defaultDataDir,
		"Folder for the clusters' data, the kubeconfig and the hub's log")
	set := cmd.Flags()
	set.SortFlags = false
	set.IntVar(&o.clusters, "clusters", 2, "Number of remotes")
	set.IntVar(&o.nodes, "nodes", 3, "Number of simulated Nodes in each remote, with some simulated Pods on each")
	set.IntVar(&o.replicas, "replicas", 1,
		"Number of replicas of the hub. With more than one, each is a process, and they share the Clusters as with run --replicas-mode=Sharded")
	set.StringVar(&o.provider, "provider", string(fleet.Processes),
		"How to run the clusters: processes (kube-apiserver and etcd on this machine) or kind (nodes in Docker)")
	set.StringVar(&o.image, "image", "", "Node image for kind. Default: the default image of kind")
	set.StringVar(&o.config, "config", "", "File of kind HubConfiguration for the hub, as run --config reads it. Default: none")
	set.StringVar(&o.apply, "apply", "", "File of objects that are applied to the hub's cluster before the hub starts. Default: none")
	set.BoolVar(&o.nats, "nats", false, "Start a NATS server, too, for modules with entities, and create the buckets that they follow (default false)")
	set.DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long the remotes may take to become Ready")
	set.BoolVar(&o.verbose, "verbose", false, "Print the hub's log instead of writing it to a file (default false)")
	set.BoolVar(&o.detach, "detach", false, "Leave everything running in the background; dev down stops it (default false)")
	set.BoolVar(&o.exitAfterReady, "exit-after-ready", false, "Stop everything once all remotes are Ready (default false)")
	set.StringVar(&o.report, "report", "", "Set by --detach for the process in the background")
	_ = set.MarkHidden("report") // It fails for unknown flags only.
}

func (o *options) validate(set *pflag.FlagSet) error {
	var errs []error
	if o.clusters < 1 || o.clusters > maxClusters {
		errs = append(errs, fmt.Errorf("--clusters=%d: use 1 to %d", o.clusters, maxClusters))
	}
	if o.nodes < 0 || o.nodes > 1000 {
		errs = append(errs, fmt.Errorf("--nodes=%d: use 0 to 1000", o.nodes))
	}
	if o.replicas < 1 || o.replicas > maxReplicas {
		errs = append(errs, fmt.Errorf("--replicas=%d: use 1 to %d", o.replicas, maxReplicas))
	}
	if o.replicas > 1 && o.nats {
		errs = append(errs, errors.New("--nats is for one replica: leave out --replicas or --nats"))
	}
	if o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("--timeout=%s: use a time above zero", o.timeout))
	}
	if o.detach && o.exitAfterReady {
		errs = append(errs, errors.New("--detach leaves everything running, and --exit-after-ready stops it: leave one of them out"))
	}
	if o.detach && o.verbose {
		errs = append(errs, errors.New("--detach has no terminal for the log of --verbose: leave one of them out"))
	}
	if o.dataDir == "" {
		errs = append(errs, errors.New("--data-dir is empty: name a folder"))
	}
	switch fleet.Provider(o.provider) {
	case fleet.Processes:
		if o.image != "" {
			errs = append(errs, errors.New("--image is for --provider kind: leave it out"))
		}
	case fleet.Kind:
		if set.Changed("nodes") {
			errs = append(errs, errors.New("--nodes is for simulated Nodes, and the Nodes of kind are real: leave it out"))
		}
		o.nodes = 0
	default:
		errs = append(errs, fmt.Errorf("--provider=%q: use %s or %s", o.provider, fleet.Processes, fleet.Kind))
	}
	return errors.Join(errs...)
}
