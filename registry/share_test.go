// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// users is a value that modules share in these tests.
type users struct{}

// hubApp returns the registry of a hub with these options, and a function that starts the hub. The hub ends with the test.
func hubApp(t *testing.T, options ...fx.Option) (r *registry.Registry, run func(), err error) {
	t.Helper()
	return hubAppWith(t, fleettest.Cluster(t, "hub").Config(), registry.Options{}, options...)
}

func hubAppWith(
	t *testing.T, config *rest.Config, o registry.Options, options ...fx.Option,
) (r *registry.Registry, run func(), err error) {
	t.Helper()
	return hubAppOf(t, hubManager(t, config, func(*ctrl.Options) {}), o, options...)
}

func hubManager(t *testing.T, config *rest.Config, change func(*ctrl.Options)) ctrl.Manager {
	t.Helper()
	o := ctrl.Options{Scheme: fleettest.Scheme(t), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard()}
	change(&o)
	mgr, err := ctrl.NewManager(config, o)
	must(t, err)
	return mgr
}

func hubAppOf(
	t *testing.T, mgr ctrl.Manager, o registry.Options, options ...fx.Option,
) (r *registry.Registry, run func(), err error) {
	t.Helper()
	o.Policy, o.AllowDuplicates = policy, true
	app := fx.New(fx.NopLogger, registry.FX, fx.Options(options...), fx.Populate(&r), fx.Supply(o),
		fx.Provide(func() ctrl.Manager { return mgr }, func() logr.Logger { return testkit.Log(t) }),
	)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	ended <- nil
	t.Cleanup(func() {
		stop()
		err := <-ended
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := errors.Join(err, app.Stop(ctx)); err != nil {
			t.Errorf("the hub ended: %v", err)
		}
		if r != nil {
			if err := r.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	run = func() {
		t.Helper()
		must(t, app.Start(ctx))
		must(t, <-ended)
		go func() { ended <- mgr.Start(ctx) }()
	}
	return r, run, app.Err()
}

// A value that cannot be shared is refused when the hub starts, with an error that names the problem.
func TestShare_Refused(t *testing.T) {
	t.Parallel()
	needs := fx.Invoke(func(*users) {})
	cases := map[string]struct {
		options []fx.Option
		says    string
	}{
		"nobody has it in the hub": {[]fx.Option{registry.NewModule("one", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: registry.Share[*users](), Remote: needs}).Option()}, "users"},
		"two have it in the hub": {[]fx.Option{
			hubModule("one", fx.Options(fx.Supply(&users{}), registry.Share[*users]())).Option(),
			hubModule("two", fx.Options(fx.Supply(&users{}), registry.Share[*users]())).Option(),
		}, `modules "one" and "two" both`},
		"nobody shares it":           {[]fx.Option{registry.NewModule("one", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Supply(&users{}), Remote: needs}).Option()}, `module "one"`},
		"every app has it by itself": {[]fx.Option{fx.Provide(func() client.Client { return nil }), registry.Share[client.Client]()}, "client.Client"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := hubApp(t, c.options...); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error with %q", err, c.says)
			}
		})
	}
}
