// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
)

const getClustersExample = `  # All Clusters, and with more columns
  %s get clusters
  %s get clusters -o wide

  # Clusters that are not Ready, with each change
  %s get clusters --status-selector ready=false -w

  # The names of those in a region, for a script
  %s get clusters -l region=eu -o name

  # Why a Cluster is not Ready
  %s get cluster edge-eu-1 -o jsonpath='{.status.conditions[?(@.type=="Ready")].message}'`

const getModulesExample = `  # The modules of this program, and in how many Clusters they run
  %s get modules

  # Where a module does not run
  %s get modules inventory -o wide`

// newGet returns the command get, with a command below it for each thing that can be had.
func newGet(p Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "List Clusters, modules or runners",
		Long:  "List Clusters, modules, or the replicas of a hub that share its Clusters.",
		Example: p.example(`  %s get clusters
  %s get modules
  %s get runners`),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if names, err := inspect.NamesOf(args); err == nil && names[0] != args[0] {
				return fmt.Errorf("say of which kind they are first: %s clusters %s", cmd.CommandPath(), strings.Join(names, " "))
			}
			return fmt.Errorf("%q is not a kind of thing that can be had: use clusters, modules or runners", args[0])
		},
	}
	// The flags belong to the commands below it: the error is the kind.
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.AddCommand(newGetClusters(p), newGetModules(p), newGetRunners(p))
	return cmd
}

// getFlags are the flags of get.
type getFlags struct {
	inspect.Form
	selector, status string
	watch            bool
}

func newGetClusters(p Program) *cobra.Command {
	var f getFlags
	var s *session
	cmd := &cobra.Command{
		Use:     "clusters [NAME...]",
		Aliases: []string{"cluster", "fxc"},
		Short:   "List Clusters",
		Long: "List Clusters. Their table comes from the API server, so that kubectl shows the same columns.\n\n" +
			connectionHelp + "\n\n" + exitCodes,
		Example: p.example(getClustersExample),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.clusters(cmd, s, args)
		},
	}
	set := cmd.Flags()
	f.Format.Bind(set, "")
	set.StringVarP(&f.selector, "selector", "l", "", "Only Clusters whose labels match, as in region=eu,tier!=test")
	set.StringVar(&f.status, "status-selector", "", "Only Clusters whose conditions match, as in ready=false")
	set.BoolVarP(&f.watch, "watch", "w", false, "Also print a line for each change, until Ctrl-C (default false)")
	f.Tables.Bind(set)
	s = p.newSession(cmd)
	s.bind(set)
	cmd.ValidArgsFunction = s.completeClusters(true)
	complete(cmd, "output", completeFixed("json", "yaml", "name", "wide", "jsonpath=", "go-template="))
	complete(cmd, "status-selector", completeFixed("ready=false", "ready=true", "ready=unknown", "authorized=false", "deletesheld=true"))
	return cmd
}

func (f *getFlags) clusters(cmd *cobra.Command, s *session, args []string) error {
	status, err := inspect.ParseStatusSelector(f.status)
	if err := errors.Join(err, f.Format.Check()); err != nil {
		return err
	}
	names, err := inspect.NamesOf(args)
	if err != nil {
		return err
	}
	if len(names) > 0 && f.selector != "" {
		return errors.New("names go without --selector")
	}
	hub, err := s.hub.Hub()
	if err != nil {
		return err
	}
	list := inspect.Clusters{Hub: hub, Names: names, Selector: f.selector, Status: status}
	if f.watch {
		return list.Watch(cmd.Context(), f.Form, s.terminal.Out)
	}
	err = list.Print(cmd.Context(), f.Form, s.terminal.Out)
	if errors.Is(err, inspect.ErrNone) {
		if f.selector != "" || f.status != "" {
			s.terminal.Text("No Clusters found that match.")
		} else {
			s.terminal.Text("No Clusters found. %s register makes one.", s.program.name())
		}
		return nil
	}
	return err
}

func newGetModules(p Program) *cobra.Command {
	var f getFlags
	var s *session
	cmd := &cobra.Command{
		Use:     "modules [NAME...]",
		Aliases: []string{"module"},
		Short:   "List modules, and in how many Clusters they run",
		Long: "List the modules of this program and the other modules that Clusters name. For each module, print the number\n" +
			"of Clusters that run it, the number of Clusters that should run it, and the state of its hub part with the\n" +
			"time since the leading hub reported it. Without a recent report the state is unknown.\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(getModulesExample),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.Format.Check(); err != nil {
				return err
			}
			hub, err := s.hub.Hub()
			if err != nil {
				return err
			}
			known := map[string]string{}
			for _, m := range p.Modules {
				known[m.Name()] = m.Description()
			}
			return inspect.Modules{
				Hub: hub, Known: known, Names: args, Namespace: s.hub.Namespace,
			}.Print(cmd.Context(), f.Form, s.terminal.Out)
		},
		ValidArgsFunction: p.completeModules,
	}
	f.Format.Bind(cmd.Flags(), "")
	f.Tables.Bind(cmd.Flags())
	s = p.newSession(cmd)
	s.hub.BindNamespace(cmd.Flags())
	s.bind(cmd.Flags())
	complete(cmd, "output", completeFixed("json", "yaml", "name", "wide", "jsonpath=", "go-template="))
	return cmd
}
