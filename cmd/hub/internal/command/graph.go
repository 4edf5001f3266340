// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/graph"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
)

const graphExample = `  # A picture of the hub's App
  %s graph -o svg > hub.svg

  # The same with Graphviz
  %s graph | dot -Tsvg > hub.svg

  # For a page in Markdown
  %s graph -o mermaid

  # The app of a remote with all modules, and the app of a Cluster
  %s graph --app
  %s graph edge-eu-1

  # In a pipeline: do the modules go together?
  %s graph --validate`

// sharedType is the type of constructors that share a value of the hub with the apps.
const sharedType = "registry.Shared[group=clusterfx-shared]"

func newGraph(p Program) *cobra.Command {
	var language string
	var validate, ofApp bool
	var s *session
	cmd := &cobra.Command{
		Use:   "graph [CLUSTER]",
		Short: "Draw the dependency graph of the hub or of an app, or check the graphs of all modules",
		Long: "Draw the dependency graph of the hub's App, or of the app of a remote: the constructors\n" +
			"of each module, the types that they make, and the types that they need. The modules of a Cluster are the\n" +
			"modules in its status; with --app the graph has all modules. The command runs nothing of an App and contacts\n" +
			"no remote; it reads only the status of a Cluster from the hub's cluster.\n\n" +
			"With --validate, check instead that every type that the hub and the modules need is provided, in the\n" +
			"hub and in the app of a remote.\n\n" +
			"Exit status: 0 if all is well, 1 if something failed, 2 if a graph is not complete.",
		Example: p.example(graphExample),
		RunE: func(cmd *cobra.Command, args []string) error {
			if validate && len(args) > 0 {
				return errors.New("--validate is about all modules, and goes without the name of a Cluster")
			}
			if validate {
				return p.validateGraphs(s.terminal)
			}
			var name string
			if len(args) > 0 {
				var err error
				if name, err = oneCluster(args); err != nil {
					return err
				}
			}
			g, err := p.graphOfHub()
			if err == nil && (ofApp || name != "") {
				g, err = s.graphOfApp(cmd.Context(), name, g)
			}
			if err != nil {
				return err
			}
			return g.Write(p.Stdout, graph.Language(language))
		},
	}
	cmd.Flags().StringVarP(&language, "output", "o", string(graph.DOT), "dot, svg, mermaid or json")
	cmd.Flags().BoolVar(&ofApp, "app", false, "Draw the app of a remote with all modules (default false)")
	cmd.Flags().BoolVar(&validate, "validate", false, "Check that everything is provided, and draw nothing (default false)")
	s = p.newSession(cmd)
	s.bind(cmd.Flags())
	cmd.ValidArgsFunction = s.completeClusters(false)
	complete(cmd, "output", completeFixed(string(graph.DOT), string(graph.SVG), string(graph.Mermaid), string(graph.JSON)))
	return cmd
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
			incomplete = fx.ValidateApp(process.HubPartOptions(p.Modules, m))
		}
	}
	if incomplete != nil {
		t.Say(output.Failure(), "the hub: %s", explainGraph(incomplete, hub))
	}
	apps := process.ValidateModules(p.Modules, nil)
	if apps != nil {
		t.Say(output.Failure(), "the app of a remote: %s", explainGraph(apps, nil))
	}
	if errors.Join(incomplete, apps) != nil {
		return process.ExitError(statusNotWell)
	}
	return t.Print("the hub and its modules are complete: %s", strings.Join(names(p.Modules), ", "))
}

// graphOfHub returns the graph of the hub's App together with the graphs of the hub parts of modules, which have Apps of
// their own.
func (p Program) graphOfHub() (*graph.Graph, error) {
	parts, err := process.AppOptions(p.Modules)
	if err != nil {
		return nil, err
	}
	g, err := graph.Of("hub", parts)
	if err != nil {
		return nil, err
	}
	for _, m := range p.Modules {
		if !m.HasHubPart() {
			continue
		}
		part, err := graph.Of("hub", process.HubPartOptions(p.Modules, m))
		if err != nil {
			return nil, err
		}
		g.Join(part)
	}
	return g, nil
}

// explainGraph names the missing types, the functions that need them, and the remedy. The graph, if there is one, names the
// functions that the error does not name.
func explainGraph(err error, g *graph.Graph) string {
	problem, known := graph.ProblemOf(err)
	if !known {
		return err.Error()
	}
	var who []string
	if g != nil {
		for _, c := range g.Needing(problem.Types) {
			who = append(who, describeNeed(c.Name, c.Location, c.Module))
		}
	}
	if len(who) == 0 && problem.Function != "" {
		if g != nil {
			problem.Module = cmp.Or(problem.Module, g.Invoking(problem.Function, problem.Types))
		}
		who = []string{describeNeed(problem.Function, problem.Location, problem.Module)}
	}
	return "no constructor provides " + strings.Join(problem.Types, ", ") + strings.Join(who, "") +
		"\nProvide it in the same part of the module, ask for something that registry.Remote lists, or share it from the hub part"
}

func describeNeed(function, location, module string) string {
	text := fmt.Sprintf("\n  needed by  %s\n  in         %s", function, location)
	if module != "" {
		text += "\n  module     " + module
	}
	return text
}
