// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/runners"
)

const getRunnersExample = `  # The replicas of the hub, and which shards each of them holds
  %s get runners
  %s get runners -o wide

  # The shards without a live holder, for a script
  %s get runners -o jsonpath='{.unheldShards}'`

const drainExample = `  # Give the Clusters of a replica to the others before its node is maintained
  %s drain clusterfx-hub-6d5f9c-x2x7k

  # Give it Clusters again
  %s drain clusterfx-hub-6d5f9c-x2x7k --cancel`

const drainTimeout = 2 * time.Minute

func newGetRunners(p Program) *cobra.Command {
	var form output.Form
	var s *session
	cmd := &cobra.Command{
		Use:     "runners [NAME...]",
		Aliases: []string{"runner", "replicas", "replica"},
		Short:   "List the replicas of a hub that share its Clusters",
		Long: "List the replicas of a hub that runs with --replicas-mode=Sharded. The state of a replica is Live, Draining (drained\n" +
			"by an administrator, and it holds shards), Drained (and it holds none), Leaving (it is about to end) or Over: its\n" +
			"Lease has no holder, or was not renewed for its duration, 10 seconds, by the clock of this machine. The Lease of a\n" +
			"replica that has ended remains for an hour.\n\n" +
			"SHARDS is the number of shards whose records name the replica, and CLUSTERS the number of Clusters in them. TASKS\n" +
			"are what one replica does for all: the assigner assigns the shards to the replicas, and the leader runs registration and\n" +
			"the hub parts that run once. Shards without a live holder are listed below the table, and in the field unheldShards.\n\n" +
			connectionHelp + "\n\n" + exitCodes,
		Example: p.example(getRunnersExample),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := form.Format.Check(); err != nil {
				return err
			}
			hub, err := s.runners()
			if err != nil {
				return err
			}
			return s.printRunners(cmd.Context(), hub, form, args)
		},
	}
	form.Bind(cmd)
	s = p.newSession(cmd, true)
	cmd.ValidArgsFunction = s.completeRunners(true)
	return cmd
}

func (s *session) printRunners(ctx context.Context, hub *runners.Hub, form output.Form, names []string) error {
	list, problem := hub.List(ctx)
	if errors.Is(problem, replica.ErrNotSharded) && len(names) == 0 {
		s.terminal.Text("The replicas of this hub do not share its Clusters: one of them runs all apps, and the others stand by.")
		list, problem = &runners.List{}, nil
		if form.Format.Tabular() {
			return nil
		}
	}
	if list == nil {
		return problem
	}
	notes := list.Notes()
	problem = errors.Join(problem, list.Pick(names))
	if len(list.Runners) > 0 || !form.Format.Tabular() {
		problem = errors.Join(problem, list.Print(form, s.terminal.Out))
	}
	if form.Format.Tabular() {
		for _, note := range notes {
			s.terminal.Warn("%s", note)
		}
	}
	return problem
}

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
	cmd.ValidArgsFunction = s.completeRunners(false)
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
		return s.terminal.Print("runner/%s gets shards again; it holds %d", name, len(found.Shards))
	case !f.wait:
		return s.terminal.Print("runner/%s gets no shards; it holds %d", name, len(found.Shards))
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
	return &runners.Hub{Cluster: hub, Namespace: s.hub.Namespace, ModeLease: roles.Lease, LeaderLease: roles.LeaderLease(roles.Lease)}, nil
}

func (s *session) completeRunners(several bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		const done = cobra.ShellCompDirectiveNoFileComp
		hub, err := s.runners()
		if err != nil || len(args) > 0 && !several {
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
			if strings.HasPrefix(r.Name, begun) && !slices.Contains(args, r.Name) {
				names = append(names, fmt.Sprintf("%s\t%s, %d shards", r.Name, r.State, len(r.Shards)))
			}
		}
		return names, done
	}
}
