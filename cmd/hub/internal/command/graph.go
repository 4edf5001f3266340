// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
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
	var s *session
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
				text = mermaid(text)
			}
			_, err = io.WriteString(p.Stdout, text+"\n")
			return err
		},
	}
	cmd.Flags().VarP(output.OneOf(&language, inDot, inMermaid), "output", "o", "dot or mermaid")
	cmd.Flags().BoolVar(&ofApp, "app", false, "Draw the app of a remote with all modules (default false)")
	cmd.Flags().BoolVar(&validate, "validate", false, "Check that everything is provided, and draw nothing (default false)")
	s = p.newSession(cmd, false)
	cmd.ValidArgsFunction = s.completeClusters(false)
	return cmd
}

var errDrawn = errors.New("the graph is known")

// draw returns fx's graph of the App with these options, with the modules and names of the constructors. It calls none of them. An
// error means that fx did not accept the options.
func draw(what string, options fx.Option) (string, error) {
	var dot fx.DotGraph
	var makers constructors
	first := fx.Module("graph", fx.Invoke(func(g fx.DotGraph) error { // fx has taken in all constructors before it invokes this
		dot = g
		return errDrawn
	}))
	if err := fx.New(first, options, fx.WithLogger(func() fxevent.Logger { return &makers })).Err(); !errors.Is(err, errDrawn) {
		return "", fmt.Errorf("take in the options of the %s: %w", what, err)
	}
	return makers.name(string(dot)), nil
}

// constructors are what fx tells of them: in its graph, those with options have no names.
type constructors struct{ shared, private []constructor }

type constructor struct{ module, name string }

// LogEvent implements fxevent.Logger.
func (c *constructors) LogEvent(event fxevent.Event) {
	switch e := event.(type) {
	case *fxevent.Provided:
		name := e.ConstructorName
		if inner, annotated := strings.CutPrefix(name, "fx.Annotate("); annotated {
			name, _, _ = strings.Cut(inner, ",")
		}
		if one := (constructor{e.ModuleName, path.Base(name)}); e.Private {
			c.private = append(c.private, one)
		} else {
			c.shared = append(c.shared, one)
		}
	case *fxevent.Supplied:
		c.shared = append(c.shared, constructor{e.ModuleName, "fx.Supply"})
	}
}

// name writes the names into fx's graph, which has the constructors in the order of the events, then that of the logger, and last those
// whose values are for their module only.
func (c *constructors) name(dot string) string {
	loggers := len(dotMaker.FindAllString(dot, -1)) - len(c.shared) - len(c.private)
	all, i := slices.Concat(c.shared, make([]constructor, max(0, loggers)), c.private), -1
	return dotMaker.ReplaceAllStringFunc(dot, func(found string) string {
		if i++; i >= len(all) || all[i].name == "" {
			return found
		}
		label := map[bool]string{true: "module " + all[i].module}[all[i].module != ""]
		return fmt.Sprintf("subgraph cluster_%d {\n\t\tlabel = %q;\n\t\tconstructor_%d [shape=plaintext label=%q];", i, label, i, all[i].name)
	})
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
	return draw("app", registry.Options{}.AppGraph(modules...))
}

// What fx writes: the begin and the end of a graph, the names of nodes, and its lines.
const dotBegin, dotEnd = "digraph {\n\trankdir=RL;\n\tgraph [compound=true];\n", "}"

var (
	dotMaker = regexp.MustCompile(`subgraph cluster_\d+ \{\n(?:\t\tlabel = .*;\n)?\t\tconstructor_\d+ \[shape=plaintext label=.*\];`)
	dotName  = regexp.MustCompile(`\b(constructor|cluster)_(\d)`)
	dotGroup = regexp.MustCompile(`^subgraph (\w+) \{$`)
	dotLabel = regexp.MustCompile(`\blabel ?= ?("(?:[^"\\]|\\.)*")`)
	dotNode  = regexp.MustCompile(`^(\w+|"(?:[^"\\]|\\.)*") \[.*\];$`)
	dotArrow = regexp.MustCompile(`^(\w+|"(?:[^"\\]|\\.)*") -> ("(?:[^"\\]|\\.)*")(.*);$`)
)

// mermaid returns a graph in the language of diagrams in Markdown, in which a type has a name, since it cannot be one.
func mermaid(dot string) string {
	out, types := "flowchart RL", map[string]string{}
	label := func(quoted string) string {
		text, _ := strconv.Unquote(quoted) // fx has quoted it.
		return `["` + strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;").Replace(text) + `"]`
	}
	node := func(name string) string {
		id, known := types[name]
		if name[0] != '"' || known {
			return cmp.Or(id, name)
		}
		types[name] = fmt.Sprintf("t%d", len(types))
		return types[name] + label(name)
	}
	for line := range strings.Lines(strings.TrimSuffix(strings.TrimPrefix(dot, dotBegin), dotEnd)) {
		line = strings.TrimSpace(line)
		text := dotLabel.FindStringSubmatch(line)
		group, arrow, one := dotGroup.FindStringSubmatch(line), dotArrow.FindStringSubmatch(line), dotNode.FindStringSubmatch(line)
		switch {
		case group != nil:
			out += "\nsubgraph " + group[1]
		case arrow != nil && strings.Contains(arrow[3], "style=dashed"):
			out += "\n" + node(arrow[1]) + " -.-> " + node(arrow[2])
		case arrow != nil:
			out += "\n" + node(arrow[1]) + " --> " + node(arrow[2])
		case one != nil && text != nil:
			out += "\n" + node(one[1]) + label(text[1])
		case one != nil:
			out += "\n" + node(one[1])
		case text != nil: // of the group before
			out += label(text[1])
		case line == dotEnd:
			out += "\nend"
		}
	}
	return out
}

// graphOfHub returns the graph of the hub's App, with the graphs of the hub parts of modules, which have Apps of their own, as parts
// of it.
func (p Program) graphOfHub() (string, error) {
	parts, err := process.AppOptions(p.Modules)
	if err != nil {
		return "", err
	}
	hub, err := draw("hub", parts)
	if err != nil {
		return "", err
	}
	hub = strings.TrimSuffix(hub, dotEnd)
	for i, m := range p.Modules {
		if !m.HasHubPart() {
			continue
		}
		part, err := draw("hub", process.HubPartOptions(p.Modules, m))
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
