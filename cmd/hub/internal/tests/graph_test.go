// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range g.Constructors {
		line := c.Module + ": " + strings.Join(c.Types, ",") + " needs"
		for _, need := range c.Needs {
			line += " " + need.Type
			if need.Optional {
				line += "?"
			}
		}
		if c.Private {
			line += " (private)"
		}
		if !strings.Contains(c.Location, "graph_test.go:") {
			t.Errorf("the location of %s is %s", c.Name, c.Location)
		}
		got = append(got, line)
	}
	want := []string{
		": *tests.well needs",
		"web: *tests.web needs *tests.well *tests.plug[group=plugs]",
		"web: string needs *tests.well? (private)",
		"plugs: *tests.plug[group=plugs] needs *tests.well *tests.absent",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
	wantInvokes := []graph.Invoke{
		{Module: "web", Name: "tests.listen()", Needs: []graph.Need{{Type: "*tests.web"}}},
		{Module: "web", Name: "tests.again()", Needs: []graph.Need{{Type: "*tests.well"}}},
		{Module: "plugs", Name: "tests.watch()", Needs: []graph.Need{{Type: "*tests.well"}, {Type: "*tests.plug"}}},
		{Module: "plugs", Name: "fx.Annotate(tests.asks(), fx.ParamTags([\"name:\\\"main\\\"\"]))", Needs: []graph.Need{
			{Type: "*tests.well[name=main]"}, {Type: "*tests.plug[group=plugs]"}, {Type: "*tests.well", Optional: true},
		}},
	}
	if diff := cmp.Diff(g.Invokes, wantInvokes, cmpopts.IgnoreFields(graph.Invoke{}, "Location")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(g.Missing, []string{"*tests.absent", "*tests.plug", "*tests.well[name=main]"}); diff != "" {
		t.Error(diff)
	}
}

func TestWrite(t *testing.T) {
	g, err := graph.Of("test", options())
	if err != nil {
		t.Fatal(err)
	}
	for language, lines := range map[graph.Language][]string{
		graph.DOT: {
			`digraph "test" {`, `    label="module web";`, `    i0 [label="tests.listen()" shape=oval];`,
			`  m0 [label="missing\n*tests.absent" color=red fontcolor=red];`,
			`  c0 -> c2 [label="*tests.well" style=dashed];`, `  c3 -> c1 [label="*tests.plug[group=plugs]"];`,
		},
		graph.Mermaid: {
			"flowchart LR", `  subgraph s2["module plugs"]`, `    i2(["tests.watch()"])`,
			`  c0 -->|"*tests.well"| c1`, `  c0 -.->|"*tests.well"| c2`,
		},
	} {
		var out bytes.Buffer
		if err := g.Write(&out, language); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !strings.Contains(out.String(), line+"\n") {
				t.Errorf("%s has no line %q:\n%s", language, line, out.String())
			}
		}
	}
	var out bytes.Buffer
	var back graph.Graph
	if err := errors.Join(g.Write(&out, graph.JSON), json.Unmarshal(out.Bytes(), &back)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&back, g); diff != "" {
		t.Error(diff)
	}
	if err := g.Write(&out, "png"); err == nil || err.Error() != `--output="png": use dot, svg, mermaid or json` {
		t.Errorf("Write returns %v for png", err)
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
		fx.Module("mine", fx.Invoke(func(all) {}, fx.Annotate(again, fx.ParamTags(`name:"second"`)))),
	)
}

// One arrow connects two functions, with the types that one function needs of the other. Types and functions have the
// names of the source code.
func TestWrite_OneArrow(t *testing.T) {
	g, err := graph.Of("test", unnamed())
	if err != nil {
		t.Fatal(err)
	}
	var dot bytes.Buffer
	if err := g.Write(&dot, graph.DOT); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`  c0 -> i0 [label="*tests.well\n*tests.well[name=second]\nand 2 more"];`,
		`  c1 -> i0 [label="events.EventRecorder"];`, `  c0 -> i1 [label="*tests.well[name=second]"];`,
		`    i1 [label="tests.again()" shape=oval];`,
	} {
		if !strings.Contains(dot.String(), want+"\n") {
			t.Errorf("there is no %q:\n%s", want, dot.String())
		}
	}
	if n := strings.Count(dot.String(), " -> "); n != 3 {
		t.Errorf("there are %d arrows, want 3:\n%s", n, dot.String())
	}
	if at := regexp.MustCompile(`c0 \[label="tests: func at graph_test\.go:\d+\\n`); !at.MatchString(dot.String()) {
		t.Errorf("a function without a name is not shown with its location:\n%s", dot.String())
	}
	if at := regexp.MustCompile(`i0 \[label="tests: func at graph_test\.go:\d+"`); !at.MatchString(dot.String()) {
		t.Errorf("an invoked function without a name is not shown with its location:\n%s", dot.String())
	}
}

func TestProblemOf(t *testing.T) {
	err := fx.ValidateApp(fx.NopLogger, options())
	problem, ok := graph.ProblemOf(err)
	if !ok {
		t.Fatalf("ProblemOf finds no problem in %v", err)
	}
	if diff := cmp.Diff(problem.Types, []string{"*tests.absent"}); diff != "" {
		t.Error(diff)
	}
	if !strings.HasSuffix(problem.Function, "tests.newWeb") || !strings.Contains(problem.Location, "graph_test.go:") {
		t.Errorf("the problem of %v is %+v", err, problem)
	}
	if _, ok := graph.ProblemOf(errors.New("something else")); ok {
		t.Error("ProblemOf takes any error for a missing type")
	}
}
