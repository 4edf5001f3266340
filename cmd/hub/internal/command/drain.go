// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/runners"
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
	var s *session
	cmd := &cobra.Command{
		Use:   "drain REPLICA",
		Short: "Give the Clusters of a replica to the others",
		Long: "Give the Clusters of a replica to the other replicas of a hub that runs with --replicas-mode=Sharded, and wait until the\n" +
			"replica holds no shard. The other replicas build the apps first, so that each Cluster has a runner. The drained\n" +
			"replica continues to run and gets no shards, also after a restart under its name, until drain --cancel.\n" +
			"If all live replicas are drained, the hub ignores it: a Cluster without a runner is worse.\n\n" +
			"The command sets the annotation clusterfx.dev/drain of the Lease of the replica. It needs the permissions to\n" +
			"get, list and patch Leases and to get ConfigMaps in the credentials namespace.\n\n" +
			connectionHelp + "\n\n" + exitCodesDrain,
		Example: p.example(drainExample),
		Args:    output.OneName("the name of a replica"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.timeout <= 0 {
				return fmt.Errorf("--timeout=%s: use a time such as 30s or 5m, or --wait=false", f.timeout)
			}
			hub, err := s.runners()
			if err != nil {
				return err
			}
			return f.drain(cmd.Context(), s, hub, strings.TrimPrefix(args[0], "runner/"))
		},
	}
	cmd.Flags().BoolVar(&f.cancel, "cancel", false, "Let the replica get shards again (default false)")
	cmd.Flags().BoolVar(&f.wait, "wait", true, "Wait until the replica holds no shard")
	cmd.Flags().DurationVar(&f.timeout, "timeout", drainTimeout, "How long the replica may take to hand over its shards")
	s = p.newSession(cmd, true)
	cmd.ValidArgsFunction = s.completeRunners
	return cmd
}

const exitCodesDrain = "Exit status: 0 if all went well, 1 if something failed, 2 if the replica still holds shards at the end of the\n" +
	"timeout, 130 after Ctrl-C."

func (f *drainFlags) drain(ctx context.Context, s *session, hub *runners.Hub, name string) error {
	found, err := hub.SetDrained(ctx, name, !f.cancel)
	switch {
	case err != nil:
		return err
	case f.cancel:
		return s.terminal.Print("runner/%s gets shards again; it holds %d", name, found.Shards)
	case !f.wait:
		return s.terminal.Print("runner/%s gets no shards; it holds %d", name, found.Shards)
	}
	err = hub.AwaitDrained(ctx, runners.Wait{
		Name: name, Timeout: f.timeout, Progress: func(text string) { s.terminal.Step("%s", text) },
	})
	if err != nil {
		return err
	}
	return s.terminal.Print("runner/%s drained; it holds no shard", name)
}

func (s *session) runners() (*runners.Hub, error) {
	hub, err := s.hub.Hub()
	if err != nil {
		return nil, err
	}
	// The names are those of a hub without another Election.ID; see process.Election.
	return &runners.Hub{Cluster: hub, Namespace: s.hub.Namespace, ModeLease: roles.Lease}, nil
}

func (s *session) completeRunners(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoFileComp
	hub, err := s.runners()
	if err != nil || len(args) > 0 {
		return nil, done
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, _ := hub.List(ctx)
	if list == nil {
		return nil, done
	}
	var names []string
	for _, r := range list.Runners {
		if strings.HasPrefix(r.Name, begun) {
			names = append(names, fmt.Sprintf("%s\t%d shards", r.Name, r.Shards))
		}
	}
	return names, done
}
