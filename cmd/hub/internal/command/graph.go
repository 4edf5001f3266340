// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/fx"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/registry"
)

const graphExample = `  # A picture of the hub's App
  %s graph | dot -Tsvg > hub.svg

  # For a page in Markdown
  %s graph -o mermaid

  # The app of a remote with all modules, and the app of a Cluster
  %s graph --app
  %s graph edge-eu-1

  # In a pipeline: do the modules go together?
  %s graph --validate`

// The languages of graphs.
const inDot, inMermaid = "dot", "mermaid"

func newGraph(p Program) *cobra.Command {
	language := inDot
	var validate, ofApp bool
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:   "graph [CLUSTER]",
		Short: "Draw the dependency graph of the hub or of an app, or check the graphs of all modules",
		Long: "Print the dependency graph of the hub's App and its hub parts, or of the app of a remote: the constructors of\n" +
			"each module, and the types that they make and need, for Graphviz (dot) or for a Markdown page (mermaid). The modules\n" +
			"of a Cluster are the modules in its status; with --app the graph has all modules. The command runs nothing of an App and\n" +
			"contacts no remote; it reads only the status of a Cluster from the hub's cluster.\n\n" +
			"With --validate, check instead that every type that the hub and the modules need is provided, in the\n" +
			"hub and in the app of a remote.\n\n" +
			"Exit status: 0 if all is well, 1 if something failed, 2 if a graph is not complete.",
		Example: p.example(graphExample),
		Args:    output.OneAtMost("the name of a Cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case validate && len(args) > 0:
				return errors.New("--validate is about all modules, and goes without the name of a Cluster")
			case validate:
				return p.validateGraphs(s.terminal)
			}
			draw := p.graphOfHub
			if ofApp || len(args) > 0 {
				draw = func() (string, error) { return s.graphOfApp(cmd.Context(), args) }
			}
			text, err := draw()
			if err != nil {
				return err
			}
			if language == inMermaid {
				text = output.Mermaid(text)
			}
			_, err = io.WriteString(p.Stdout, text+"\n")
			return err
		},
	}
	cmd.Flags().VarP(output.OneOf(&language, inDot, inMermaid), "output", "o", "dot or mermaid")
	cmd.Flags().BoolVar(&ofApp, "app", false, "Draw the app of a remote with all modules (default false)")
	cmd.Flags().BoolVar(&validate, "validate", false, "Check that everything is provided, and draw nothing (default false)")
	s.bind(cmd, false)
	cmd.ValidArgsFunction = s.completeClusters(false)
	return cmd
}

// graphOfApp returns the graph of the app of a Cluster, or, without arguments, of an app with all modules.
func (s *session) graphOfApp(ctx context.Context, args []string) (string, error) {
	modules := s.program.Modules
	if len(args) > 0 {
		c, err := s.hub.Hub()
		if err != nil {
			return "", err
		}
		var cluster hubv1.Cluster
		if err := c.Get(ctx, client.ObjectKey{Name: args[0]}, &cluster); err != nil {
			return "", c.Explain(err)
		}
		modules = slices.DeleteFunc(slices.Clone(modules), func(m registry.Module) bool {
			return !slices.ContainsFunc(cluster.Status.Modules, func(one hubv1.ModuleStatus) bool { return one.Name == m.Name() })
		})
	}
	return process.Draw("app", registry.Options{}.AppGraph(modules...))
}

// What fx writes: the begin and the end of a graph, and the names of nodes.
const dotBegin, dotEnd = "digraph {\n\trankdir=RL;\n\tgraph [compound=true];\n", "}"

var dotName = regexp.MustCompile(`\b(constructor|cluster)_(\d)`)

// graphOfHub returns the graph of the hub's App, with the graphs of the hub parts of modules, which have Apps of their own, as parts
// of it.
func (p Program) graphOfHub() (string, error) {
	parts, err := process.AppOptions(p.Modules)
	if err != nil {
		return "", err
	}
	hub, err := process.Draw("hub", parts)
	if err != nil {
		return "", err
	}
	hub = strings.TrimSuffix(hub, dotEnd)
	for i, m := range p.Modules {
		if !m.HasHubPart() {
			continue
		}
		part, err := process.Draw("hub", process.HubPartOptions(p.Modules, m))
		if err != nil {
			return "", fmt.Errorf("module %s: %w", m.Name(), err)
		}
		part = dotName.ReplaceAllString(strings.TrimPrefix(part, dotBegin), fmt.Sprintf("${1}_part%d_$2", i))
		hub += fmt.Sprintf("\tsubgraph cluster_part%d {\n\t\tlabel = %q;\n%s\n", i, "the hub part of module "+m.Name(), part)
	}
	return hub + dotEnd, nil
}

// validateGraphs checks the graphs of the hub, of the app of a remote with each module alone, and of an app with
// all of them.
func (p Program) validateGraphs(t *output.Terminal) error {
	parts, err := process.AppOptions(p.Modules)
	if err != nil {
		return err
	}
	hub := fx.ValidateApp(parts)
	for _, m := range p.Modules {
		if m.HasHubPart() && hub == nil {
			if hub = fx.ValidateApp(process.HubPartOptions(p.Modules, m)); hub != nil {
				hub = fmt.Errorf("module %q: %w", m.Name(), hub)
			}
		}
	}
	const advice = "Provide it in the same part of the module, ask for something that registry.Remote lists, or share it from the hub part"
	if hub != nil {
		t.Say(output.Failure, "the hub: %v\n%s", hub, advice)
	}
	apps := process.ValidateModules(p.Modules, nil)
	if apps != nil {
		t.Say(output.Failure, "the app of a remote: %v\n%s", apps, advice)
	}
	if errors.Join(hub, apps) != nil {
		return process.ExitError(statusNotWell)
	}
	return t.Print("the hub and its modules are complete: %s", strings.Join(names(p.Modules), ", "))
}
