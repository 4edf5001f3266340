// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"

	"github.com/spf13/cobra"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
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
		Use:   "pause [cluster] [NAME...]",
		Short: "Stop the apps of remotes, and keep their Clusters",
		Long: "Stop the apps of remotes, and keep their Clusters and all that is known of them: spec.state becomes\n" +
			"Paused. Nothing is cleaned up in the remotes.\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(pauseExample),
	})
}

func newResume(p Program) *cobra.Command {
	return newSetState(p, hubv1.ClusterActive, &cobra.Command{
		Use:   "resume [cluster] [NAME...]",
		Short: "Start the apps of paused remotes again",
		Long: "Start the apps of paused remotes again: spec.state becomes Active.\n\n" +
			connectionHelp + "\n\n" + exitCodes,
		Example: p.example(resumeExample),
	})
}

func newSetState(p Program, state hubv1.ClusterState, cmd *cobra.Command) *cobra.Command {
	var change inspect.Change
	var format output.Format
	var dry string
	var s *session
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mode, err := parseDryRun(dry)
		if err = errors.Join(err, format.Check()); err != nil {
			return err
		}
		if change.Names, err = inspect.NamesOf(args); err != nil {
			return err
		}
		if change.Hub, err = s.hub.Hub(); err != nil {
			return err
		}
		operation := map[hubv1.ClusterState]string{hubv1.ClusterPaused: "paused", hubv1.ClusterActive: "resumed"}[state]
		if change.DryRun = mode != dryRunNone; change.DryRun {
			operation += " (dry run)"
		}
		printer, err := format.Done(operation)
		if err != nil {
			return err
		}
		return change.SetState(cmd.Context(), state, func(c *hubv1.Cluster) error {
			return printer.PrintObj(c, s.terminal.Out)
		})
	}
	set := cmd.Flags()
	set.StringVarP(&change.Selector, "selector", "l", "", "The Clusters whose labels match, as in region=eu")
	set.BoolVar(&change.All, "all", false, "All Clusters (default false)")
	format.Bind(set, "json, yaml, name, jsonpath=TEMPLATE or go-template=TEMPLATE. Default: a line for each Cluster")
	bindDryRun(cmd, &dry)
	s = p.newSession(cmd, false)
	cmd.ValidArgsFunction = s.completeClusters(true)
	return cmd
}
