// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
)

const drainExample = `  # Give the Clusters of a replica to the others before its node is maintained
  %s drain clusterfx-hub-6d5f9c-x2x7k

  # Give it Clusters again
  %s drain clusterfx-hub-6d5f9c-x2x7k --cancel`

const drainTimeout = 2 * time.Minute

type drainFlags struct {
	cancel, wait bool
	timeout      time.Duration
}

func newDrain(p Program) *cobra.Command {
	var f drainFlags
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:   "drain POD",
		Short: "Give the Clusters of a replica to the others",
		Long: "Give the Clusters of a replica of the hub, named by its Pod, to the others, and wait until it has no shard. The other\n" +
			"replicas build the apps first, so that each Cluster has a runner. The drained replica continues to run and gets no\n" +
			"shards, also after a restart of its container, until drain --cancel. If all live replicas are drained, the hub\n" +
			"ignores it: a Cluster without a runner is worse.\n\n" +
			"The command writes the key drained.POD of the ConfigMap clusterfx-assignment. It needs the permissions to list\n" +
			"Leases and to get and patch ConfigMaps in the credentials namespace.\n\n" +
			connectionHelp + "\n\n" + exitCodesDrain,
		Example: p.example(drainExample),
		Args:    output.OneName("the name of a Pod"),
		RunE: s.onHub(func(cmd *cobra.Command, hub *access.Cluster, args []string) error {
			if f.timeout <= 0 {
				return fmt.Errorf("--timeout=%s: use a time such as 30s or 5m, or --wait=false", f.timeout)
			}
			return f.drain(cmd.Context(), s, hub, strings.TrimPrefix(args[0], "pod/"))
		}),
	}
	cmd.Flags().BoolVar(&f.cancel, "cancel", false, "Let the replica get shards again (default false)")
	cmd.Flags().BoolVar(&f.wait, "wait", true, "Wait until the replica has no shard")
	cmd.Flags().DurationVar(&f.timeout, "timeout", drainTimeout, "How long the replica may take to hand over its shards")
	s.bind(cmd, true)
	return cmd
}

const exitCodesDrain = "Exit status: 0 if all went well, 1 if something failed, 2 if the replica still has shards at the end of the\n" +
	"timeout, 130 after Ctrl-C."

func (f *drainFlags) drain(ctx context.Context, s *session, hub *access.Cluster, pod string) error {
	d := replica.Drain{
		Client: hub, Namespace: s.hub.Namespace, Pod: pod, Progress: func(text string) { s.terminal.Step("%s", text) },
	}
	held, err := d.Set(ctx, !f.cancel)
	switch {
	case err != nil:
		return hub.Explain(err)
	case f.cancel:
		return s.terminal.Print("pod/%s gets shards again; it has %d", pod, held)
	case !f.wait:
		return s.terminal.Print("pod/%s gets no shards; it has %d", pod, held)
	}
	if err := d.Await(ctx, f.timeout); err != nil {
		return hub.Explain(err)
	}
	return s.terminal.Print("pod/%s drained; it has no shard", pod)
}
