// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"
	"k8s.io/client-go/tools/events"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/graph"
)

type (
	well   struct{}
	web    struct{}
	absent struct{}
	plug   struct{}
)

// The App of the tests. Its functions must not be called.
func newWell() (*well, error)      { panic("a constructor was called") }
func newWeb(*well, plugs) *web     { panic("a constructor was called") }
func newPlug(*well, *absent) *plug { panic("a constructor was called") }
func listen(*web) error            { panic("an invoke was called") }
func watch(*well, *plug)           { panic("an invoke was called") }
func asks(*well, plugs, maybe)     { panic("an invoke was called") }
func again(*well)                  { panic("an invoke was called") }
func private(maybe) string         { panic("a constructor was called") }

type maybe struct {
	fx.In
	Well *well `optional:"true"`
}

type plugs struct {
	fx.In
	All []*plug `group:"plugs"`
}

func options() fx.Option {
	return fx.Options(
		fx.Provide(newWell),
		fx.Module("web", fx.Provide(newWeb), fx.Provide(private, fx.Private), fx.Invoke(listen, again)),
		fx.Module("plugs", fx.Provide(fx.Annotate(newPlug, fx.ResultTags(`group:"plugs"`))), fx.Invoke(watch),
			fx.Options(fx.Invoke(fx.Annotate(asks, fx.ParamTags(`name:"main"`))))),
	)
}

func TestOf(t *testing.T) {
	g, err := graph.Of("test", options())
	must(t, err)
	var got []string
	for _, f := range g.Functions {
		line := f.Module + ": " + f.Name
		if len(f.Types) > 0 {
			line += " makes " + strings.Join(f.Types, ",")
			if !strings.Contains(f.Location, "graph_test.go:") {
				t.Errorf("the location of %s is %s", f.Name, f.Location)
			}
		}
		for i, need := range f.Needs {
			if i == 0 {
				line += " needs"
			}
			line += " " + need.Type
			if need.Optional {
				line += "?"
			}
		}
		got = append(got, line)
	}
	want := []string{
		": tests.newWell() makes *tests.well",
		"web: tests.newWeb() makes *tests.web needs *tests.well *tests.plug[group=plugs]",
		"web: tests.private() makes string needs *tests.well?",
		"plugs: tests.newPlug() makes *tests.plug[group=plugs] needs *tests.well *tests.absent",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}

func TestText(t *testing.T) {
	g, err := graph.Of("test", options())
	must(t, err)
	for language, c := range map[string]struct {
		in    graph.Language
		lines []string
	}{
		"dot": {graph.DOT(), []string{
			`digraph "test" {`, `    label="module web";`, `    f0 [label="tests.newWell()\n*tests.well"];`,
			`  f0 -> f2 [label="*tests.well" style=dashed];`, `  f3 -> f1 [label="*tests.plug[group=plugs]"];`, `}`,
		}},
		"mermaid": {graph.Mermaid(), []string{
			"title: test", "flowchart LR", `  subgraph s2["module plugs"]`, `    f3["tests.newPlug()<br/>*tests.plug[group=plugs]"]`,
			`  f0 -->|"*tests.well"| f1`, `  f0 -.->|"*tests.well"| f2`,
		}},
	} {
		out := g.Text(c.in)
		for _, line := range c.lines {
			if !strings.Contains(out, line+"\n") {
				t.Errorf("%s has no line %q:\n%s", language, line, out)
			}
		}
	}
}

// The App of the tests of names. Its functions have generated names, which authors do not know.
func unnamed() fx.Option {
	type both struct {
		fx.Out
		First  *well
		Second *well `name:"second"`
		Third  *web
		Fourth *plug
	}
	type all struct {
		fx.In
		First  *well
		Second *well `name:"second"`
		Third  *web
		Fourth *plug `optional:"true"`
		Fifth  events.EventRecorder
	}
	return fx.Options(
		fx.Provide(func() both { panic("a constructor was called") }),
		fx.Provide(func() events.EventRecorder { panic("a constructor was called") }),
		fx.Module("mine", fx.Provide(func(all) string { panic("a constructor was called") })),
	)
}

// One arrow connects two functions, with the types that one function needs of the other. A type has the name of the source
// code, and a function without a name is shown with its place.
func TestText_OneArrow(t *testing.T) {
	g, err := graph.Of("test", unnamed())
	must(t, err)
	dot := g.Text(graph.DOT())
	for _, want := range []string{
		`  f0 -> f2 [label="*tests.well\n*tests.well[name=second]\nand 2 more"];`,
		`  f1 -> f2 [label="events.EventRecorder"];`,
	} {
		if !strings.Contains(dot, want+"\n") {
			t.Errorf("there is no %q:\n%s", want, dot)
		}
	}
	if n := strings.Count(dot, " -> "); n != 2 {
		t.Errorf("there are %d arrows, want 2:\n%s", n, dot)
	}
	if at := regexp.MustCompile(`f0 \[label="tests\.unnamed\.func1\(\)\\ngraph_test\.go:\d+\\n`); !at.MatchString(dot) {
		t.Errorf("a function without a name is not shown with its location:\n%s", dot)
	}
}

func TestNeeding(t *testing.T) {
	g, err := graph.Of("test", options())
	must(t, err)
	found := g.Needing(fx.ValidateApp(fx.NopLogger, options()))
	if len(found) != 1 || found[0].Name != "tests.newPlug()" {
		t.Errorf("the functions that lack a type are %+v", found)
	}
	if found := g.Needing(errors.New("something else")); found != nil {
		t.Errorf("an error that names no type gives %+v", found)
	}
}
