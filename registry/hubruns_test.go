// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func hubOnce(t *testing.T, once *turns, o registry.Options, modules ...registry.Module) (r *registry.Registry, run func()) {
	t.Helper()
	o.HubParts.Once = once
	var options []fx.Option
	for _, m := range modules {
		options = append(options, m.Option())
	}
	r, run, err := hubAppWith(t, fleettest.Cluster(t, "hub").Config(), o, options...)
	must(t, err)
	return r, run
}

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

// reporting returns a module that runs Once, and sends the values of each life when its runnables work.
func reporting(lives chan<- registry.HubPart) registry.Module {
	return registry.NewModule("once", registry.ModuleOptions{HubRuns: registry.Once, Hub: fx.Invoke(func(p registry.HubPart) error {
		return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
			lives <- p
			<-ctx.Done()
			return nil
		}))
	})})
}

// A hub part that runs Once has a life for each turn, and waits otherwise, which is no failure. One that runs WithRemotes runs
// all the time.
func TestHubParts_Once(t *testing.T) {
	t.Parallel()
	lives, once := make(chan registry.HubPart, 10), newTurns(t)
	r, run := hubOnce(t, once, registry.Options{}, reporting(lives),
		registry.NewModule("everywhere", registry.ModuleOptions{Hub: fx.Invoke(func() {}), HubRuns: registry.WithRemotes}))
	run()
	expectNever(t, r, "everywhere", state.ModuleStandby, state.ModuleRunning)
	standsBy := func() {
		t.Helper()
		one := expectNever(t, r, "once", state.ModuleRunning, state.ModuleStandby)
		if one.Reason != state.ReasonStandby || one.Restarts > 0 || one.Zombies > 0 || len(lives) > 0 {
			t.Errorf("got %+v with %d lives, want Standby without restarts, zombies and lives", one, len(lives))
		}
	}
	agents := map[string]bool{}
	for range 3 {
		standsBy()
		once.begin()
		expectPart(t, r, "once", state.ModuleRunning, "")
		agents[(<-lives).Config.UserAgent] = true
		testkit.Closed(t, "the work of a turn ends", once.end())
	}
	standsBy()
	if len(agents) != 3 {
		t.Errorf("got the lives %v, want one for each of 3 turns", agents)
	}
	if one := expectPart(t, r, "everywhere", state.ModuleRunning, ""); one.Restarts > 0 {
		t.Errorf("got %+v, want no restarts", one)
	}
}

// A hub part WithRemotes has a life in each turn of its replica, and writes only then. Apps that need its shared value wait
// meanwhile, without a failure. A hub part that runs Once has turns of its own.
func TestHubParts_WithRemotesTurn(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	type agent struct{ name string }
	with, lives, seen := newTurns(t), make(chan registry.HubPart, 10), make(chan *agent, 10)
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
		expectModule(t, r, "a", "user", state.ModuleWaiting, state.ReasonHubPartNotRunning)
		with.begin()
		expectPart(t, r, "maker", state.ModuleRunning, "")
		expectModule(t, r, "a", "user", state.ModuleRunning, state.ReasonRunning)
		part := <-lives
		agents[part.Config.UserAgent] = true
		testkit.Equal(t, (<-seen).name, part.Config.UserAgent, "the life whose value the app has")
		must(t, tryCreate(t)(part.Client))
		with.open.Store(false)
		testkit.ErrorIs(t, tryCreate(t)(part.Client), registry.ErrStandby, "a write outside of the turn")
		testkit.Closed(t, "the work of the turn ends", with.end())
	}
	expectNever(t, r, "maker", state.ModuleRunning, state.ModuleStandby)
	expectModule(t, r, "a", "user", state.ModuleWaiting, state.ReasonHubPartNotRunning)
	testkit.Equal(t, len(agents), 2, "lives in two turns")
}

// A hub part that runs Once writes only in the turn of its life. It reads in any case.
func TestHubParts_OnceGate(t *testing.T) {
	t.Parallel()
	lives, once := make(chan registry.HubPart, 10), newTurns(t)
	_, run := hubOnce(t, once, registry.Options{}, reporting(lives))
	run()
	once.begin()
	part := <-lives
	own, err := client.New(part.Config, client.Options{Scheme: part.Scheme, Mapper: part.RESTMapper})
	must(t, err)
	set, err := kubernetes.NewForConfig(part.Config)
	must(t, err)
	event := func() error {
		_, err := set.EventsV1().Events(metav1.NamespaceDefault).Create(t.Context(), &eventsv1.Event{}, metav1.CreateOptions{})
		return err
	}
	expect := func(shut bool) {
		t.Helper()
		for who, c := range map[string]client.Client{"the part's client": part.Client, "a client of its own": own} {
			for what, write := range map[string]func(client.Client) error{"create": tryCreate(t), "delete": tryDelete(t)} {
				if err := write(c); errors.Is(err, registry.ErrStandby) != shut || !shut && err != nil {
					t.Errorf("%s of %s: got %v, want ErrStandby is %t", what, who, err, shut)
				}
			}
		}
		if err := event(); apierrors.IsForbidden(err) != shut { // An open gate leads to the API server, which finds it invalid.
			t.Errorf("an event: got %v, want that it is dropped is %t", err, shut)
		}
		if _, err := set.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			t.Errorf("a read fails: %v", err)
		}
	}
	for _, shut := range []bool{false, true, false} {
		once.open.Store(!shut)
		expect(shut)
	}
	testkit.Closed(t, "the work of a turn ends", once.end())
	once.begin()
	<-lives
	if err := tryCreate(t)(own); err == nil {
		t.Error("a life of an earlier turn writes in a later one")
	}
	if err := event(); !apierrors.IsForbidden(err) {
		t.Errorf("an event of a life that has ended: got %v, want that it is dropped", err)
	}
}

// A life that fails because its writes are refused has not failed: the next one begins when the gate is open.
func TestHubParts_OnceRefused(t *testing.T) {
	t.Parallel()
	lives, once := make(chan struct{}, 10), newTurns(t)
	r, run := hubOnce(t, once, registry.Options{}, registry.NewModule("once", registry.ModuleOptions{
		HubRuns: registry.Once, Hub: fx.Invoke(func(p registry.HubPart) error {
			return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
				lives <- struct{}{}
				for ctx.Err() == nil {
					if err := tryCreate(t)(p.Client); err != nil {
						return err
					}
				}
				return nil
			}))
		}),
	}))
	run()
	once.begin()
	expectPart(t, r, "once", state.ModuleRunning, "")
	<-lives
	once.open.Store(false)
	if one := expectNever(t, r, "once", state.ModuleFailed, state.ModuleStandby); one.Restarts > 0 {
		t.Errorf("got %+v, want no restarts", one)
	}
	once.open.Store(true)
	<-lives
	if one := expectPart(t, r, "once", state.ModuleRunning, ""); one.Restarts > 0 {
		t.Errorf("got %+v, want no restarts", one)
	}
}

// A life that does not end with its turn is left behind: it writes nothing, also in the next turn, and the
// work of its turn counts as ended when it ends.
func TestHubParts_OnceZombie(t *testing.T) {
	t.Parallel()
	lives, release, once := make(chan registry.HubPart, 10), make(chan struct{}), newTurns(t)
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	r, run := hubOnce(t, once, registry.Options{Limits: registry.Limits{StopTimeout: time.Second}},
		registry.NewModule("once", registry.ModuleOptions{HubRuns: registry.Once, Hub: fx.Invoke(func(p registry.HubPart) error {
			return p.Manager.Add(manager.RunnableFunc(func(context.Context) error {
				lives <- p
				<-release
				return nil
			}))
		})}))
	t.Cleanup(free) // before the hub ends
	run()
	once.begin()
	zombie := <-lives
	ended := once.end()
	eventually(t, func() error {
		if one := partNamed(r, "once"); one.Zombies != 1 || one.State != state.ModuleStandby || one.Restarts > 0 {
			return fmt.Errorf("got %+v, want a zombie, Standby and no restarts", one)
		}
		return nil
	})
	once.begin()
	<-lives
	if err := tryCreate(t)(zombie.Client); err == nil {
		t.Error("a life that was left behind writes in the next turn")
	}
	select {
	case <-ended:
		t.Error("the work of the first turn counts as ended while a life of it has not")
	default:
	}
	free()
	testkit.Closed(t, "the work of the first turn ends", ended)
	eventually(t, func() error {
		if one := partNamed(r, "once"); one.Zombies > 0 {
			return fmt.Errorf("got %+v, want no zombies", one)
		}
		return nil
	})
}

// A hub part with too many lives that do not end has no further one, also in another turn.
func TestHubParts_OnceZombies(t *testing.T) {
	t.Parallel()
	lives, release, once := make(chan struct{}, 10), make(chan struct{}), newTurns(t)
	free := sync.OnceFunc(func() { close(release) })
	r, run := hubOnce(t, once, registry.Options{Limits: registry.Limits{StopTimeout: 100 * time.Millisecond}},
		registry.NewModule("once", registry.ModuleOptions{HubRuns: registry.Once, Hub: fx.Invoke(func(p registry.HubPart) error {
			return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
				lives <- struct{}{}
				<-release
				<-ctx.Done()
				return nil
			}))
		})}))
	t.Cleanup(free)
	run()
	for i := range 3 {
		once.begin()
		<-lives
		once.end()
		eventually(t, func() error {
			if one := partNamed(r, "once"); one.Zombies != i+1 {
				return fmt.Errorf("got %+v, want %d zombies", one, i+1)
			}
			return nil
		})
	}
	once.begin()
	one := expectNever(t, r, "once", state.ModuleRunning, state.ModuleFailed)
	if !strings.Contains(one.Message, "3 earlier lives of the hub part have not ended") {
		t.Errorf("got %+v, want a message about earlier lives", one)
	}
	if len(lives) > 0 {
		t.Error("there is a life beside three zombies")
	}
	free()
	expectPart(t, r, "once", state.ModuleRunning, "")
}

// When the hub ends during a turn, the work of the turn ends with the hooks of the hub part. A hub that never
// has a turn ends, too.
func TestHubParts_OnceEndOfHub(t *testing.T) {
	t.Parallel()
	var hooks atomic.Int64
	takes, never := newTurns(t), newTurns(t)
	t.Cleanup(func() { // after the hubs have ended
		testkit.Closed(t, "the work of the turn ends", takes.end())
		testkit.Equal(t, hooks.Load(), 1, "hooks have run")
	})
	for _, once := range []*turns{takes, never} {
		r, run := hubOnce(t, once, registry.Options{}, registry.NewModule("hooks", registry.ModuleOptions{
			HubRuns: registry.Once, Hub: fx.Invoke(func(l fx.Lifecycle) {
				l.Append(fx.StopHook(func() { hooks.Add(1) }))
			}),
		}))
		run()
		expectPart(t, r, "hooks", state.ModuleStandby, "")
		if once == takes {
			once.begin()
			expectPart(t, r, "hooks", state.ModuleRunning, "")
		}
	}
}
