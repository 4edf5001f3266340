// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/fx"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A hub does not start with modules whose hub part does not say where it runs, also if it is alone, and names all of them.
func TestHubRuns(t *testing.T) {
	t.Parallel()
	part, one := fx.Invoke(func() {}), fx.Invoke(func(registry.Remote) {})
	shares := fx.Options(fx.Provide(func() *users { return &users{} }), registry.Share[*users]())
	modules := []registry.Module{
		registry.NewModule("silent", registry.ModuleOptions{Hub: part}),
		registry.NewModule("once", registry.ModuleOptions{Hub: part, HubRuns: registry.Once}),
		registry.NewModule("everywhere", registry.ModuleOptions{Hub: shares, HubRuns: registry.WithRemotes}),
		registry.NewModule("in-remotes", registry.ModuleOptions{Remote: one}),
		registry.NewModule("wrong", registry.ModuleOptions{Hub: part, HubRuns: "Somewhere"}),
	}
	hub := fleettest.Cluster(t, "hub").Config()
	o := registry.Options{Hub: hub, HubMapper: fleettest.Mapper(t, hub), Scheme: fleettest.Scheme(t), Modules: modules}
	create := func() error {
		r, err := registry.New(o)
		if err == nil {
			err = r.Shutdown(t.Context())
		}
		return err
	}
	err := create()
	if err == nil || !strings.Contains(err.Error(), "do not say where they run: silent, wrong;") ||
		!strings.Contains(err.Error(), "HubRuns: registry.Once") || !strings.Contains(err.Error(), "HubRuns: registry.WithRemotes") {
		t.Errorf("got error %v, want one that names the modules silent and wrong, and what to write", err)
	}
	o.Modules = []registry.Module{registry.NewModule("shares", registry.ModuleOptions{Hub: shares, HubRuns: registry.Once})}
	if err := create(); err == nil || !strings.Contains(err.Error(), `module "shares"`) || !strings.Contains(err.Error(), "WithRemotes") {
		t.Errorf("got error %v, want one about the module that shares values and runs Once", err)
	}
	o.Modules = modules[1:4]
	if err := create(); err != nil {
		t.Errorf("a hub whose modules say where they run does not start: %v", err)
	}
}

// expectNever waits until a hub part is in a state, and fails the test at once if it is in another one before.
func expectNever(t *testing.T, r *registry.Registry, name, never, want string) state.HubPartStatus {
	t.Helper()
	var one state.HubPartStatus
	eventually(t, func() error {
		switch one = partNamed(r, name); one.State {
		case want:
			return nil
		case never:
			t.Fatalf("hub part %s: got %+v before %s", name, one, want)
		}
		return fmt.Errorf("got %+v, want %s", one, want)
	})
	return one
}

// turns is a registry.Turn that begins and ends when its test says so.
type turns struct {
	begun chan context.Context
	shut  atomic.Bool
	works sync.WaitGroup
}

func (s *turns) Await(ctx context.Context) (context.Context, func(), error) {
	select {
	case lasts := <-s.begun:
		return lasts, s.works.Done, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

func (s *turns) Count() func() { return func() {} }

func (s *turns) Check() error {
	if s.shut.Load() {
		return registry.ErrStandby
	}
	return nil
}

// A hub part WithRemotes has a life in each turn of its replica, and writes only then. Apps that need its shared value wait
// meanwhile, without a failure. A hub part that runs Once has turns of its own.
func TestHubParts_WithRemotesTurn(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	type agent struct{ name string }
	with, lives, seen := &turns{begun: make(chan context.Context)}, make(chan registry.HubPart, 10), make(chan *agent, 10)
	var options []fx.Option
	for _, m := range []registry.Module{
		hubModule("maker", fx.Options(
			fx.Provide(func(p registry.HubPart) (*agent, error) {
				return &agent{p.Config.UserAgent}, p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
					lives <- p
					<-ctx.Done()
					return nil
				}))
			}), registry.Share[*agent](),
		)),
		registry.NewModule("user", registry.ModuleOptions{Remote: fx.Invoke(func(a *agent) { seen <- a })}),
		registry.NewModule("once", registry.ModuleOptions{HubRuns: registry.Once, Hub: fx.Invoke(func() {})}),
	} {
		options = append(options, m.Option())
	}
	o := registry.Options{HubParts: registry.HubPartOptions{WithRemotes: with}}
	r, run, err := hubAppWith(t, fleettest.Cluster(t, "hub").Config(), o, options...)
	must(t, err)
	run()
	spawn(t, r, "a", config)
	expectPart(t, r, "once", state.ModuleRunning, "")
	agents := map[string]bool{}
	for range 2 {
		one := expectNever(t, r, "maker", state.ModuleRunning, state.ModuleStandby)
		if one.Reason != state.ReasonStandby || one.Restarts > 0 || len(lives) > 0 || len(seen) > 0 {
			t.Errorf("got %+v with %d lives, want Standby without restarts and lives, and no app with its value", one, len(lives))
		}
		waiting := expectModule(t, r, "a", "user", state.ModuleWaiting, state.ReasonHubPartNotRunning)
		testkit.Has(t, waiting.Message, "module maker")
		lasts, end := context.WithCancel(context.WithoutCancel(t.Context()))
		with.shut.Store(false)
		with.works.Add(1)
		with.begun <- lasts
		expectPart(t, r, "maker", state.ModuleRunning, "")
		expectModule(t, r, "a", "user", state.ModuleRunning, state.ReasonRunning)
		part := <-lives
		agents[part.Config.UserAgent] = true
		testkit.Equal(t, (<-seen).name, part.Config.UserAgent, "the life whose value the app has")
		must(t, tryCreate(t)(part.Client))
		with.shut.Store(true)
		testkit.ErrorIs(t, tryCreate(t)(part.Client), registry.ErrStandby, "a write outside of the turn")
		end()
		with.works.Wait()
	}
	expectNever(t, r, "maker", state.ModuleRunning, state.ModuleStandby)
	expectModule(t, r, "a", "user", state.ModuleWaiting, state.ReasonHubPartNotRunning)
	testkit.Equal(t, len(agents), 2, "lives in two turns")
}
