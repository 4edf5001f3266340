// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/fx"

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
			`^error: the hub: module "mine": (?s:.*)missing type:\s+\*command\.absent[^\n]*\n` +
				`needed by \S*command\.makesNothing\S* in \S+ \(\S+graph_test\.go:\d+\)\nProvide it in the same part`,
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
			`^error: module mine: take in the options of the hub: (?s:.*)makesItToo \(\S+graph_test\.go:\d+\): ` +
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
