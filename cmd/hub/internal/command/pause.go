// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
)

const pauseExample = `  # Stop the app of a remote and keep its Cluster
  %s pause edge-eu-1

  # The apps of the remotes of a region
  %s pause -l region=eu`

const resumeExample = `  # Start the app of a remote again
  %s resume edge-eu-1

  # All of them
  %s resume --all`

func newPause(p Program) *cobra.Command {
	return newSetState(p, hubv1.ClusterPaused, &cobra.Command{
		Use:   "pause [NAME...]",
		Short: "Stop the apps of remotes, and keep their Clusters",
		Long: "Stop the apps of remotes, and keep their Clusters and all that is known of them: spec.state becomes\n" +
			"Paused. Nothing is cleaned up in the remotes.\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(pauseExample),
	})
}

func newResume(p Program) *cobra.Command {
	return newSetState(p, hubv1.ClusterActive, &cobra.Command{
		Use:   "resume [NAME...]",
		Short: "Start the apps of paused remotes again",
		Long: "Start the apps of paused remotes again: spec.state becomes Active.\n\n" +
			connectionHelp + "\n\n" + exitCodes,
		Example: p.example(resumeExample),
	})
}

func newSetState(p Program, state hubv1.ClusterState, cmd *cobra.Command) *cobra.Command {
	var change inspect.Change
	s := &session{program: p}
	cmd.RunE = s.onHub(func(cmd *cobra.Command, hub *access.Cluster, args []string) error {
		change.Hub, change.Names = hub, args
		return change.SetState(cmd.Context(), state, func(name string) error {
			return s.terminal.Print("cluster.%s/%s %sd", hubv1.GroupName, name, cmd.Name())
		})
	})
	set := cmd.Flags()
	set.StringVarP(&change.Selector, "selector", "l", "", "The Clusters whose labels match, as in region=eu")
	set.BoolVar(&change.All, "all", false, "All Clusters (default false)")
	s.bind(cmd, false)
	cmd.ValidArgsFunction = s.completeClusters(true)
	return cmd
}
