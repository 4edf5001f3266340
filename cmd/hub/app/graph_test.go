// SPDX-License-Identifier: Apache-2.0

package app

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

func makesNothing(*absent) *strings.Builder { return nil }

// The check of the graphs names what is missing, who needs it, where, and in which module.
func TestGraph_Validate(t *testing.T) {
	for name, test := range map[string]struct {
		module registry.ModuleOptions
		status int
		want   string
	}{
		"complete": {
			registry.ModuleOptions{Remote: fx.Invoke(func(registry.Remote) {})},
			0,
			`^the hub and 1 modules are complete: mine\n$`,
		},
		"the app of a remote": {
			registry.ModuleOptions{Remote: fx.Invoke(needsAbsent)},
			statusNotWell,
			`^error: the app of a remote: nobody provides \*app\.absent\n  needed by  \S+/app\.needsAbsent\n` +
				`  in         \S+graph_test\.go:\d+\n  module     mine\nProvide it in the same part`,
		},
		"the hub": {
			registry.ModuleOptions{Hub: fx.Options(fx.Provide(fx.Annotate(makesNothing)), fx.Invoke(func(*strings.Builder) {}))},
			statusNotWell,
			`^error: the hub: nobody provides \*app\.absent\n  needed by  \S*app\.makesNothing\S*.*\n` +
				`  in         .*graph_test\.go:\d+.*\n  module     mine\n`,
		},
		"shared": {
			registry.ModuleOptions{
				Hub:    fx.Options(fx.Provide(func() *absent { return nil }), registry.Share[*absent]()),
				Remote: fx.Invoke(needsAbsent),
			}, 0, `^the hub and 1 modules are complete`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			status := execute(t.Context(), program{
				args: []string{"hub", "graph", "--validate"}, stdout: &out, stderr: &out,
				modules: []registry.Module{registry.NewModule("mine", test.module)},
			})
			if status != test.status || !regexp.MustCompile(test.want).MatchString(out.String()) {
				t.Errorf("the exit status is %d, and it says:\n%s", status, out.String())
			}
		})
	}
}
