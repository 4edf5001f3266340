// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/fx"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/graph"
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

func newGraph(p Program) *cobra.Command {
	var language string
	var validate, ofApp bool
	var s *session
	cmd := &cobra.Command{
		Use:   "graph [CLUSTER]",
		Short: "Draw the dependency graph of the hub or of an app, or check the graphs of all modules",
		Long: "Print the dependency graph of the hub's App, or of the app of a remote: the constructors of each module,\n" +
			"and the types that they make and need, for Graphviz (dot) or for a Markdown page (mermaid). The modules of a Cluster are the modules in its status; with --app the graph has all modules. The\n" +
			"command runs nothing of an App and contacts no remote; it reads only the status of a Cluster from the hub's\n" +
			"cluster.\n\n" +
			"With --validate, check instead that every type that the hub and the modules need is provided, in the\n" +
			"hub and in the app of a remote.\n\n" +
			"Exit status: 0 if all is well, 1 if something failed, 2 if a graph is not complete.",
		Example: p.example(graphExample),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case validate && len(args) > 0:
				return errors.New("--validate is about all modules, and goes without the name of a Cluster")
			case validate:
				return p.validateGraphs(s.terminal)
			}
			in, known := map[string]graph.Language{"dot": graph.DOT(), "mermaid": graph.Mermaid()}[language]
			if !known {
				return fmt.Errorf("--output=%q: use dot or mermaid", language)
			}
			draw := p.graphOfHub
			if ofApp || len(args) > 0 {
				draw = func() (*graph.Graph, error) { return s.graphOfApp(cmd.Context(), args) }
			}
			g, err := draw()
			if err != nil {
				return err
			}
			_, err = io.WriteString(p.Stdout, g.Text(in))
			return err
		},
	}
	cmd.Flags().StringVarP(&language, "output", "o", "dot", "dot or mermaid")
	cmd.Flags().BoolVar(&ofApp, "app", false, "Draw the app of a remote with all modules (default false)")
	cmd.Flags().BoolVar(&validate, "validate", false, "Check that everything is provided, and draw nothing (default false)")
	s = p.newSession(cmd, false)
	cmd.ValidArgsFunction = s.completeClusters(false)
	complete(cmd, "output", completeFixed("dot", "mermaid"))
	return cmd
}

// graphOfApp returns the graph of the app of a Cluster, or, without arguments, of an app with all modules.
func (s *session) graphOfApp(ctx context.Context, args []string) (*graph.Graph, error) {
	title, modules := "app", s.program.Modules
	if len(args) > 0 {
		name, err := oneCluster(args)
		if err != nil {
			return nil, err
		}
		c, err := s.hub.Hub()
		if err != nil {
			return nil, err
		}
		var cluster hubv1.Cluster
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &cluster); err != nil {
			return nil, c.Explain(err)
		}
		title += " " + cluster.Name
		modules = slices.DeleteFunc(slices.Clone(modules), func(m registry.Module) bool {
			return !slices.ContainsFunc(cluster.Status.Modules, func(one hubv1.ModuleStatus) bool { return one.Name == m.Name() })
		})
	}
	return graph.Of(title, registry.Options{}.AppGraph(modules...))
}

// graphOfHub returns the graph of the hub's App together with the graphs of the hub parts of modules, which have Apps of
// their own.
func (p Program) graphOfHub() (*graph.Graph, error) {
	parts, err := process.AppOptions(p.Modules)
	if err != nil {
		return nil, err
	}
	g, err := graph.Of("hub", parts)
	for _, m := range p.Modules {
		if err != nil || !m.HasHubPart() {
			continue
		}
		var part *graph.Graph
		if part, err = graph.Of("hub", process.HubPartOptions(p.Modules, m)); err != nil {
			return nil, fmt.Errorf("module %s: %w", m.Name(), err)
		}
		g.Join(part)
	}
	return g, err
}

// validateGraphs checks the graphs of the hub, of the app of a remote with each module alone, and of an app with
// all of them.
func (p Program) validateGraphs(t *output.Terminal) error {
	parts, err := process.AppOptions(p.Modules)
	if err != nil {
		return err
	}
	hub, err := p.graphOfHub()
	if err != nil {
		t.Say(output.Failure(), "%v", err)
		return process.ExitError(statusNotWell)
	}
	incomplete := fx.ValidateApp(parts)
	for _, m := range p.Modules {
		if m.HasHubPart() && incomplete == nil {
			if incomplete = fx.ValidateApp(process.HubPartOptions(p.Modules, m)); incomplete != nil {
				incomplete = fmt.Errorf("module %q: %w", m.Name(), incomplete)
			}
		}
	}
	const advice = "Provide it in the same part of the module, ask for something that registry.Remote lists, or share it from the hub part"
	if incomplete != nil {
		t.Say(output.Failure(), "the hub: %v%s\n%s", incomplete, needing(hub, incomplete), advice)
	}
	apps := process.ValidateModules(p.Modules, nil)
	if apps != nil {
		t.Say(output.Failure(), "the app of a remote: %v\n%s", apps, advice)
	}
	if errors.Join(incomplete, apps) != nil {
		return process.ExitError(statusNotWell)
	}
	return t.Print("the hub and its modules are complete: %s", strings.Join(names(p.Modules), ", "))
}

// needing names the constructors that need a missing type. The error does not name an annotated one.
func needing(g *graph.Graph, err error) string {
	var text strings.Builder
	for _, f := range g.Needing(err) {
		fmt.Fprintf(&text, "\nneeded by %s in %s", f.Name, f.Location)
	}
	return text.String()
}
