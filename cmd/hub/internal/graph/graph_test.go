// SPDX-License-Identifier: Apache-2.0

package graph_test

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
	pool   struct{}
	server struct{}
	absent struct{}
	plug   struct{}
)

// The App of the tests. Its functions must not be called.
func newPool() (*pool, error)        { panic("a constructor was called") }
func newServer(*pool, plugs) *server { panic("a constructor was called") }
func newPlug(*pool, *absent) *plug   { panic("a constructor was called") }
func listen(*server) error           { panic("an invoke was called") }
func watch(*pool, *plug)             { panic("an invoke was called") }
func asks(*pool, plugs, maybe)       { panic("an invoke was called") }
func again(*pool)                    { panic("an invoke was called") }
func private(maybe) string           { panic("a constructor was called") }

type maybe struct {
	fx.In
	Pool *pool `optional:"true"`
}

type plugs struct {
	fx.In
	All []*plug `group:"plugs"`
}

func options() fx.Option {
	return fx.Options(
		fx.Provide(newPool),
		fx.Module("web", fx.Provide(newServer), fx.Provide(private, fx.Private), fx.Invoke(listen, again)),
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
		": *graph_test.pool needs",
		"web: *graph_test.server needs *graph_test.pool *graph_test.plug[group=plugs]",
		"web: string needs *graph_test.pool? (private)",
		"plugs: *graph_test.plug[group=plugs] needs *graph_test.pool *graph_test.absent",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
	wantInvokes := []graph.Invoke{
		{Module: "web", Name: "graph_test.listen()", Needs: []graph.Need{{Type: "*graph_test.server"}}},
		{Module: "web", Name: "graph_test.again()", Needs: []graph.Need{{Type: "*graph_test.pool"}}},
		{Module: "plugs", Name: "graph_test.watch()", Needs: []graph.Need{{Type: "*graph_test.pool"}, {Type: "*graph_test.plug"}}},
		{Module: "plugs", Name: "fx.Annotate(graph_test.asks(), fx.ParamTags([\"name:\\\"main\\\"\"]))", Needs: []graph.Need{
			{Type: "*graph_test.pool[name=main]"}, {Type: "*graph_test.plug[group=plugs]"}, {Type: "*graph_test.pool", Optional: true},
		}},
	}
	if diff := cmp.Diff(g.Invokes, wantInvokes, cmpopts.IgnoreFields(graph.Invoke{}, "Location")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(g.Missing, []string{"*graph_test.absent", "*graph_test.plug", "*graph_test.pool[name=main]"}); diff != "" {
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
			`digraph "test" {`, `    label="module web";`, `    i0 [label="graph_test.listen()" shape=oval];`,
			`  m0 [label="missing\n*graph_test.absent" color=red fontcolor=red];`,
			`  c0 -> c2 [label="*graph_test.pool" style=dashed];`, `  c3 -> c1 [label="*graph_test.plug[group=plugs]"];`,
		},
		graph.Mermaid: {
			"flowchart LR", `  subgraph s2["module plugs"]`, `    i2(["graph_test.watch()"])`,
			`  c0 -->|"*graph_test.pool"| c1`, `  c0 -.->|"*graph_test.pool"| c2`,
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
		First  *pool
		Second *pool `name:"second"`
		Third  *server
		Fourth *plug
	}
	type all struct {
		fx.In
		First  *pool
		Second *pool `name:"second"`
		Third  *server
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
		`  c0 -> i0 [label="*graph_test.pool\n*graph_test.pool[name=second]\nand 2 more"];`,
		`  c1 -> i0 [label="events.EventRecorder"];`, `  c0 -> i1 [label="*graph_test.pool[name=second]"];`,
		`    i1 [label="graph_test.again()" shape=oval];`,
	} {
		if !strings.Contains(dot.String(), want+"\n") {
			t.Errorf("there is no %q:\n%s", want, dot.String())
		}
	}
	if n := strings.Count(dot.String(), " -> "); n != 3 {
		t.Errorf("there are %d arrows, want 3:\n%s", n, dot.String())
	}
	if at := regexp.MustCompile(`c0 \[label="graph_test: func at graph_test\.go:\d+\\n`); !at.MatchString(dot.String()) {
		t.Errorf("a function without a name is not shown with its location:\n%s", dot.String())
	}
	if at := regexp.MustCompile(`i0 \[label="graph_test: func at graph_test\.go:\d+"`); !at.MatchString(dot.String()) {
		t.Errorf("an invoked function without a name is not shown with its location:\n%s", dot.String())
	}
}

func TestProblemOf(t *testing.T) {
	err := fx.ValidateApp(fx.NopLogger, options())
	problem, ok := graph.ProblemOf(err)
	if !ok {
		t.Fatalf("ProblemOf finds no problem in %v", err)
	}
	if diff := cmp.Diff(problem.Types, []string{"*graph_test.absent"}); diff != "" {
		t.Error(diff)
	}
	if !strings.HasSuffix(problem.Function, "graph_test.newServer") || !strings.Contains(problem.Location, "graph_test.go:") {
		t.Errorf("the problem of %v is %+v", err, problem)
	}
	if _, ok := graph.ProblemOf(errors.New("something else")); ok {
		t.Error("ProblemOf takes any error for a missing type")
	}
}
