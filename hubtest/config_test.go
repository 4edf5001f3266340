// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// A module receives the configuration that an operator writes for it, and a text that is not a valid configuration
// fails the test.
func TestModuleConfig(t *testing.T) {
	t.Parallel()
	t.Run("right", func(t *testing.T) {
		t.Parallel()
		hub := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(greeter()), hubtest.ModuleConfig("greeter", `
config:
  greeting: good morning
overrides:
- selector:
    matchLabels: {region: br}
  config: {greeting: bom dia}
`))
		hub.AddRemote("b", func(c *hubv1.Cluster) { c.Labels = map[string]string{"region": "br"} })
		for remote, want := range map[string]string{"a": "good morning", "b": "bom dia"} {
			made := configMap("greeting")
			hub.Remote(remote).WaitFor(made, func() error { return equal(made.Data["text"], want) })
		}
	})
	for text, want := range map[string]string{
		"conf: {}":               `the configuration of module greeter: error unmarshaling JSON: while decoding JSON: json: unknown field "conf"`,
		"name: other":            "the configuration of module greeter: name: leave it out",
		"config: {greeting: ''}": "greeting: use a text",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			said := fails(t, func(tb *failing) {
				hubtest.New(tb, hubtest.Modules(greeter()), hubtest.ModuleConfig("greeter", text))
			})
			testkit.Has(t, said, want, "test fails with")
		})
	}
}

// greeting is the configuration of the module greeter.
type greeting struct {
	Greeting string `json:"greeting"`
}

// Validate implements the validation that package registry requires of configurations.
func (g greeting) Validate() error {
	if g.Greeting == "" {
		return errors.New("greeting: use a text")
	}
	return nil
}

// greeter is a module that keeps its greeting in a ConfigMap of each remote.
func greeter() registry.Module {
	return registry.NewModule("greeter", registry.ModuleOptions{
		Config: registry.ConfigOf(func() greeting { return greeting{"hello"} }),
		Rules:  []rbacv1.PolicyRule{may("configmaps", "list", "watch", "create", "update")},
		Remote: fx.Invoke(func(p registry.Remote, config greeting) error {
			return ctrl.NewControllerManagedBy(p.Manager).Named("greeter").For(&corev1.ConfigMap{}).
				WatchesRawSource(watch.InitialRequest(ctrl.Request{})).
				Complete(reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
					made := configMap("greeting")
					_, err := ctrl.CreateOrUpdate(ctx, p.Client, made, func() error {
						made.Data = map[string]string{"text": config.Greeting}
						return nil
					})
					return ctrl.Result{}, err
				}))
		}),
	})
}
