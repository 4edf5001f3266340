// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/graph"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/terminal"
	"github.com/clusterfx/clusterfx/registry"
)

const graphExample = `  # A picture of the hub's App
  %s graph | dot -Tsvg > hub.svg

  # For a page in Markdown
  %s graph -o mermaid

  # The app of a remote with all modules, and that of a Cluster
  %s graph --app
  %s graph edge-eu-1

  # In a pipeline: do the modules go together?
  %s graph --validate`

// sharedType is what constructors make that hand a value of the hub to the apps.
const sharedType = "registry.Shared[group=clusterfx-shared]"

func newGraph(p program) *cobra.Command {
	var language string
	var validate, ofApp bool
	var s *session
	cmd := &cobra.Command{
		Use:   "graph [CLUSTER]",
		Short: "Draw the dependency graph of the hub or of an app, or check that of every module",
		Long: "Draw the dependency graph of the hub's App, or of the app of a remote: which constructor of which\n" +
			"module makes which types, and which ones it needs. The modules of a Cluster are those in its status; with\n" +
			"--app they are all. With --validate, check instead that everything that the hub and the modules ask for is\n" +
			"provided, in the hub and in the app of a remote. Nothing of an App runs, and no remote is contacted; the\n" +
			"hub's cluster is asked for the status of a Cluster only.\n\n" +
			"Exit status: 0 if all is well, 1 if something failed, 2 if a graph is not complete.",
		Example: p.example(graphExample),
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if validate {
				return p.validateGraphs(s.terminal)
			}
			parts, err := p.hubParts()
			if err != nil {
				return err
			}
			g, err := graph.Of("hub", parts)
			if err == nil && (ofApp || len(args) > 0) {
				g, err = s.graphOfApp(cmd.Context(), args, g)
			}
			if err != nil {
				return err
			}
			return g.Write(p.stdout, graph.Language(language))
		},
	}
	cmd.Flags().StringVarP(&language, "output", "o", string(graph.DOT), "dot, mermaid or json")
	cmd.Flags().BoolVar(&ofApp, "app", false, "Draw the app of a remote with all modules (default false)")
	cmd.Flags().BoolVar(&validate, "validate", false, "Check that everything is provided, and draw nothing (default false)")
	s = p.newSession(cmd)
	s.bind(cmd.Flags())
	cmd.ValidArgsFunction = s.completeClusters(false)
	complete(cmd, "output", completeFixed(string(graph.DOT), string(graph.Mermaid), string(graph.JSON)))
	return cmd
}

// graphOfApp returns the graph of the app of a Cluster, or, without a name, of one with all modules.
func (s *session) graphOfApp(ctx context.Context, args []string, hub *graph.Graph) (*graph.Graph, error) {
	title, modules := "app", s.program.modules
	if len(args) > 0 {
		c, err := s.hub.Hub()
		if err != nil {
			return nil, err
		}
		var cluster hubv1.Cluster
		if err := c.Get(ctx, client.ObjectKey{Name: args[0]}, &cluster); err != nil {
			return nil, c.Explain(err)
		}
		title = "app " + cluster.Name
		modules = slices.DeleteFunc(slices.Clone(modules), func(m registry.Module) bool {
			return !slices.ContainsFunc(cluster.Status.Modules, func(one hubv1.ModuleStatus) bool { return one.Name == m.Name() })
		})
	}
	g, err := graph.Of(title, registry.AppOptions(modules...))
	if err == nil {
		g.Provided(hub.Needed(sharedType))
	}
	return g, err
}

// errNotRun is what the manager's constructor fails with that is in a graph and never called.
var errNotRun = errors.New("a graph that is looked at is not run")

// hubParts returns what the hub's App consists of, for somebody who looks at it and does not run it.
func (p program) hubParts() (fx.Option, error) {
	o, err := Options{Config: &rest.Config{}, Modules: p.modules}.withDefaults()
	if err != nil {
		return nil, err
	}
	return parts(o, func() (ctrl.Manager, error) { return nil, errNotRun }), nil
}

// validateGraphs checks the hub's graph, that of the app of a remote with each module alone, and that with
// all of them.
func (p program) validateGraphs(t *terminal.Terminal) error {
	parts, err := p.hubParts()
	if err != nil {
		return err
	}
	hub, err := graph.Of("hub", parts)
	if err != nil {
		return err
	}
	incomplete := fx.ValidateApp(parts)
	if incomplete != nil {
		t.Say(terminal.Failure(), "the hub: %s", explainGraph(incomplete, hub))
	}
	apps := p.validateApps(hub)
	if apps != nil {
		t.Say(terminal.Failure(), "the app of a remote: %s", explainGraph(apps, nil))
	}
	if errors.Join(incomplete, apps) != nil {
		return exitError(statusNotWell)
	}
	return t.Print("the hub and %d modules are complete: %s", len(p.modules), strings.Join(names(p.modules), ", "))
}

// validateApps has the registry check the modules, as it does when the hub starts. What the hub part of a
// module shares has no value here, so that a type that is shared is not missing.
func (p program) validateApps(hub *graph.Graph) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	_, err = registry.New(registry.Options{
		Hub: &rest.Config{}, HubMapper: meta.NewDefaultRESTMapper(nil), Scheme: scheme, Modules: p.modules,
	})
	if err == nil {
		return nil
	}
	problem, known := graph.ProblemOf(err)
	if !known {
		return err
	}
	shared := hub.Needed(sharedType)
	if !slices.ContainsFunc(problem.Types, func(kind string) bool { return !slices.Contains(shared, kind) }) {
		return nil
	}
	return err
}

// explainGraph says what is missing, for whom and where, and what to do. A graph names those that need it
// and have no name in the error.
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
		who = []string{describeNeed(problem.Function, problem.Location, problem.Module)}
	}
	return "nobody provides " + strings.Join(problem.Types, ", ") + strings.Join(who, "") +
		"\nProvide it in the same part of the module, ask for something that registry.Remote lists, or share it from the hub part"
}

func describeNeed(function, location, module string) string {
	text := fmt.Sprintf("\n  needed by  %s\n  in         %s", function, location)
	if module != "" {
		text += "\n  module     " + module
	}
	return text
}
