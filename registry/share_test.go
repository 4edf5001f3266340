// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// users is what modules share in these tests.
type users struct {
	mu    sync.Mutex
	users map[registry.ClusterName]bool
}

func (p *users) use(r registry.Remote, same *users) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == nil {
		p.users = map[registry.ClusterName]bool{}
	}
	p.users[r.Cluster] = p == same
}

// hubApp returns an App of a hub and its registry, which is shut down when the test ends.
func hubApp(t *testing.T, options ...fx.Option) (*registry.Registry, error) {
	t.Helper()
	mgr, err := ctrl.NewManager(fleettest.Cluster(t, "hub").Config(), ctrl.Options{
		Scheme: scheme(t), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var r *registry.Registry
	app := fx.New(fx.NopLogger, registry.FX, fx.Options(options...), fx.Populate(&r),
		fx.Supply(registry.Options{Policy: policy, AllowDuplicates: true}),
		fx.Provide(func() ctrl.Manager { return mgr }, logr.Discard),
	)
	if r != nil {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
			defer cancel()
			if err := r.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return r, app.Err()
}

// A value that is built once in the hub's App is the same in the apps of all remotes, whichever module shares
// it, and however many do.
func TestShare(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "a")
	built := 0
	var shared *users
	newPool := func() *users {
		built++
		shared = &users{}
		return shared
	}
	use := fx.Invoke(func(r registry.Remote, p *users) { shared.use(r, p) })
	r, err := hubApp(t,
		registry.NewModule("first", registry.ModuleOptions{Hub: fx.Options(fx.Provide(newPool), registry.Share[*users]()), Remote: use}).Option(),
		registry.NewModule("second", registry.ModuleOptions{Hub: registry.Share[*users](), Remote: use}).Option(),
	)
	if err != nil {
		t.Fatal(err)
	}
	spawn(t, r, "a", config)
	spawn(t, r, "b", config)
	if built != 1 || len(shared.users) != 2 || !shared.users["a"] || !shared.users["b"] {
		t.Errorf("built %d times, used by %v, want once, by a and b", built, shared.users)
	}
}

// What goes wrong with sharing is found when the hub starts, and says what.
func TestShare_Refused(t *testing.T) {
	t.Parallel()
	needs := fx.Invoke(func(*users) {})
	cases := map[string]struct {
		options []fx.Option
		says    string
	}{
		"nobody has it in the hub":   {[]fx.Option{registry.NewModule("one", registry.ModuleOptions{Hub: registry.Share[*users](), Remote: needs}).Option()}, "users"},
		"nobody shares it":           {[]fx.Option{registry.NewModule("one", registry.ModuleOptions{Hub: fx.Supply(&users{}), Remote: needs}).Option()}, `module "one"`},
		"every app has it by itself": {[]fx.Option{fx.Provide(func() client.Client { return nil }), registry.Share[client.Client]()}, "client.Client"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := hubApp(t, c.options...); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the hub says %v, want %q", err, c.says)
			}
		})
	}
}
