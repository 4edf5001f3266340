// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/registry"
)

type absent struct{}

func needsAbsent(*absent) {}

func needsNamed(struct {
	fx.In
	Value *absent `name:"main"`
},
) {
}

func makesAbsent() *absent { return nil }

func makesItToo() *absent { return nil }

func makesNothing(*absent) *strings.Builder { return nil }

// graph --validate names a missing type, the function that needs it, its location and its module.
func TestGraph_Validate(t *testing.T) {
	for name, test := range map[string]struct {
		module registry.ModuleOptions
		status int
		want   string
	}{
		"complete": {
			registry.ModuleOptions{Remote: fx.Invoke(func(registry.Remote) {})},
			0,
			`^the hub and its modules are complete: mine\n$`,
		},
		"the app of a remote": {
			registry.ModuleOptions{Remote: fx.Invoke(needsAbsent)},
			statusNotWell,
			`^error: the app of a remote: check the modules: module "mine": missing dependencies for function \S+/command"\.needsAbsent` +
				`\s+\(?\S+graph_test\.go:\d+\)?:\s+missing type:\s+\*command\.absent[^\n]*\nProvide it in the same part`,
		},
		"the hub": {
			registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Options(fx.Provide(fx.Annotate(makesNothing)), fx.Invoke(func(*strings.Builder) {}))},
			statusNotWell,
			`^error: the hub: module "mine": (?s:.*)makesNothing\s+\(?\S+graph_test\.go:\d+\)?:\s+missing type:\s+\*command\.absent[^\n]*\nProvide it in the same part`,
		},
		"a name in the app of a remote": {
			registry.ModuleOptions{Remote: fx.Options(fx.Provide(makesAbsent), fx.Invoke(needsNamed))},
			statusNotWell,
			`module "mine": missing dependencies for function \S+/command"\.needsNamed\s+\(?\S+graph_test\.go:\d+\)?:\s+` +
				`missing type:\s+\*command\.absent\[name="main"\]`,
		},
		"what is invoked in the hub": {
			registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Invoke(needsAbsent)},
			statusNotWell,
			`^error: the hub: module "mine": missing dependencies for function \S+/command"\.needsAbsent\s+\(?\S+graph_test\.go:\d+\)?:\s+` +
				`missing type:\s+\*command\.absent`,
		},
		"the hub has it twice": {
			registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Provide(makesAbsent, makesItToo)},
			statusNotWell,
			`^error: the hub: module "mine": (?s:.*)makesItToo \(\S+graph_test\.go:\d+\): ` +
				`cannot provide \*command\.absent from \[0\]: already provided by \S+makesAbsent \(\S+graph_test\.go:\d+\)`,
		},
		"the app has it twice": {
			registry.ModuleOptions{Remote: fx.Provide(makesAbsent, makesItToo)},
			statusNotWell,
			`^error: the app of a remote: check the modules: module "mine": (?s:.*)already provided by \S+makesAbsent \(\S+graph_test\.go:\d+\)`,
		},
		"no function": {
			registry.ModuleOptions{Remote: fx.Invoke(3)},
			statusNotWell,
			`^error: the app of a remote: check the modules: module "mine": can't invoke non-function 3`,
		},
		"shared": {
			registry.ModuleOptions{
				HubRuns: registry.WithRemotes,
				Hub:     fx.Options(fx.Provide(func() *absent { return nil }), registry.Share[*absent]()),
				Remote:  fx.Invoke(needsAbsent),
			}, 0, `^the hub and its modules are complete`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			status := Execute(t.Context(), Program{
				Args: []string{"hub", "graph", "--validate"}, Stdout: &out, Stderr: &out,
				Modules: []registry.Module{registry.NewModule("mine", test.module)},
			})
			if status != test.status || !regexp.MustCompile(test.want).MatchString(out.String()) {
				t.Errorf("the exit status is %d, and the output is:\n%s", status, out.String())
			}
		})
	}
}

// A module that needs a type of another module is not complete, because it may be the only module of an app.
func TestGraph_ValidateEachModuleAlone(t *testing.T) {
	var out bytes.Buffer
	status := Execute(t.Context(), Program{
		Args: []string{"hub", "graph", "--validate"}, Stdout: &out, Stderr: &out,
		Modules: []registry.Module{
			registry.NewModule("maker", registry.ModuleOptions{Remote: fx.Provide(makesAbsent)}),
			registry.NewModule("user", registry.ModuleOptions{Remote: fx.Invoke(needsAbsent)}),
		},
	})
	want := regexp.MustCompile(`module "user": missing dependencies for function \S+/command"\.needsAbsent\s+\(?\S+graph_test\.go:\d+\)?:\s+missing type:\s+\*command\.absent`)
	if status != statusNotWell || !want.MatchString(out.String()) {
		t.Errorf("the exit status is %d, and the output is:\n%s", status, out.String())
	}
}

// The graph has the modules and the names of all constructors, and the diagram in Mermaid has what the graph has: optional needs, names
// and groups of values.
func TestGraph_Names(t *testing.T) {
	t.Parallel()
	type needs struct {
		fx.In
		One  *absent         `optional:"true"`
		Text strings.Builder `name:"one"`
		All  []*absent       `group:"all"`
	}
	dot, err := process.Draw("test", fx.Options(
		fx.Provide(makesAbsent), fx.Module("mine", fx.Provide(func(needs) string { panic("a constructor was called") }, fx.Private)),
		fx.Module("other", fx.Provide(fx.Annotate(makesItToo, fx.ResultTags(`group:"all"`))), fx.Supply(7)),
	))
	must(t, err)
	for text, lines := range map[string][]string{
		dot: {
			`		label = "module other";\n		constructor_\d+ \[shape=plaintext label="command.makesItToo\(\)"\];\n		"\*command.absent\[group=all\]0" .*`,
			`		label = "";\n		constructor_\d+ \[shape=plaintext label="command.makesAbsent\(\)"\];\n		"\*command.absent" .*`,
			`		label = "module mine";\n		constructor_\d+ \[shape=plaintext label="command.TestGraph_Names.func1\(\)"\];\n		"string" .*`,
			`		constructor_\d+ \[shape=plaintext label="fx.Supply"\];\n		"int" .*`,
		},
		output.Mermaid(dot): {
			`flowchart RL`, `subgraph cluster_\d+\["module other"\]`, `constructor_\d+\["command.makesAbsent\(\)"\]`, `t\d+\["\*command\.absent"\]`,
			`constructor_\d+ -\.-> t\d+`, `constructor_\d+ --> t\d+\["strings.Builder\[name=one\]"\]`, `t\d+\["\[type=\*command\.absent group=all\]"\]`, `end`,
		},
	} {
		for _, line := range lines {
			if !regexp.MustCompile("(?m)^" + line + "$").MatchString(text) {
				t.Errorf("there is no line %s in\n%s", line, text)
			}
		}
		if begun, ended := strings.Count(text, "subgraph "), strings.Count(text, "\n\t}\n")+strings.Count(text, "\nend"); begun != ended {
			t.Errorf("%d groups begin, and %d end", begun, ended)
		}
	}
}

// graph draws the constructors of the hub and, as parts of the same graph, of its hub parts; with --app those of the app of a remote.
func TestGraph_Draw(t *testing.T) {
	mine := registry.NewModule("mine", registry.ModuleOptions{
		HubRuns: registry.WithRemotes, Hub: fx.Provide(makesAbsent), Remote: fx.Provide(makesNothing, func() (*absent, error) { panic("a constructor was called") }),
	})
	for flag, lines := range map[string][]string{
		"--app=false": {
			`digraph {`, `	subgraph cluster_part0 {`, `		label = "the hub part of module mine";`, `(?m:^		constructor_part0_\d+ \[shape=plaintext label="command.makesAbsent\(\)"\];$)`,
			`(?m:^		constructor_0 \[)`,
		},
		"--app": {`(?m:^		constructor_\d+ \[shape=plaintext label="command.makesNothing\(\)"\];$)`, `(?m:^	constructor_\d+ -> "\*command\.absent" \[ltail=cluster_\d+\];$)`},
	} {
		var out bytes.Buffer
		status := Execute(t.Context(), Program{Args: []string{"hub", "graph", flag}, Stdout: &out, Stderr: &out, Modules: []registry.Module{mine}})
		for _, line := range lines {
			if status != 0 || !regexp.MustCompile(line).MatchString(out.String()) {
				t.Errorf("%s: the exit status is %d, and there is no %s in\n%s", flag, status, line, out.String())
			}
		}
		if begun, ended := strings.Count(out.String(), " {\n"), strings.Count(out.String(), "}\n"); begun != ended {
			t.Errorf("%s: %d parts of the graph begin, and %d end", flag, begun, ended)
		}
	}
}
