// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// standby is a module that records in which epoch the cache has an object, and in which epoch it reconciles the object.
type standby struct {
	mayWork atomic.Bool // else no epoch may reconcile

	mu                 sync.Mutex // protects the fields below
	cached, reconciled map[string]int64
	early              []string // reconciles while no epoch may reconcile
}

func (s *standby) module() registry.Module {
	s.cached, s.reconciled = map[string]int64{}, map[string]int64{}
	return registry.NewModule("standby", registry.ModuleOptions{Remote: fx.Invoke(s.setUp)})
}

func (s *standby) setUp(p registry.Remote) error {
	err := ctrl.NewControllerManagedBy(p.Manager).Named("standby").For(&corev1.ConfigMap{}).Complete(
		reconcile.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
			s.reconcile(p.Status.Epoch, r.Name)
			return ctrl.Result{}, nil
		}))
	if err != nil {
		return err
	}
	return p.Manager.Add(unelected(func(ctx context.Context) error {
		informer, err := p.Manager.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
		if err != nil {
			return err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(added any) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.cached[added.(*corev1.ConfigMap).Name] = p.Status.Epoch
		}})
		return err
	}))
}

// unelected is a runnable that needs no leader election.
type unelected func(ctx context.Context) error

var _ manager.LeaderElectionRunnable = unelected(nil)

func (f unelected) Start(ctx context.Context) error { return f(ctx) }

func (unelected) NeedLeaderElection() bool { return false }

func (s *standby) reconcile(epoch int64, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reconciled[name] = epoch
	if !s.mayWork.Load() {
		s.early = append(s.early, fmt.Sprintf("%s in epoch %d", name, epoch))
	}
}

// expect waits until an epoch has, or has reconciled, an object.
func (s *standby) expect(t *testing.T, in *map[string]int64, name string, epoch int64) {
	t.Helper()
	eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := (*in)[name]; got != epoch {
			return fmt.Errorf("object %s was seen in epoch %d last, want epoch %d", name, got, epoch)
		}
		return nil
	})
}

// expectIdle shows that a warm epoch gets objects, and that it has reconciled none.
func (s *standby) expectIdle(t *testing.T, epoch int64, create func() string) {
	t.Helper()
	for range 3 { // A controller would have reconciled the first one before the last one is in the cache.
		s.expect(t, &s.cached, create(), epoch)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.early) > 0 {
		t.Errorf("reconciles while the remote is warm: %v", s.early)
	}
}

// A warm app has the objects of its remote and does nothing. The same app works when Warm is cleared, without another list,
// and ends when the remote is to be warm again, with the leases of its client, which a warm app does not lend.
func TestRegistry_Warm(t *testing.T) {
	t.Parallel()
	var s standby
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{s.module()} })
	c := fleettest.Cluster(t, "one")
	f, config := newFront(t, c)
	f.set(listsOf(configMaps), f.honest.ServeHTTP) // counts them
	create := func() string { return newConfigMap(t, c).Name }
	before := create()

	ensureWarm(t, r, config, true)
	warm := expectWarm(t, r)
	s.expect(t, &s.cached, before, warm.Epoch)
	s.expectIdle(t, warm.Epoch, create)
	err := r.WithClient(t.Context(), "a", func(context.Context, client.Client) error { return nil })
	if notReady, ok := errors.AsType[*registry.NotReadyError](err); !ok || notReady.State != state.StateWarm {
		t.Errorf("WithClient while warm: got %v, want a NotReadyError with the state Warm", err)
	}
	lists := f.requests.Load()

	s.mayWork.Store(true)
	ensureWarm(t, r, config, false)
	s.expect(t, &s.reconciled, before, warm.Epoch)
	if first := expectState(t, r, "a", state.StateReady, state.ReasonReady); first.Epoch != warm.Epoch {
		t.Errorf("epoch %d works, want epoch %d, which was warm", first.Epoch, warm.Epoch)
	}
	if got := f.requests.Load(); lists == 0 || got != lists {
		t.Errorf("%d lists after the app was warm, want the %d lists of before", got, lists)
	}

	err = r.WithClient(t.Context(), "a", func(ctx context.Context, _ client.Client) error {
		ensureWarm(t, r, config, true)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	testkit.ErrorIs(t, err, registry.ErrStopped, "the lease ended with")
	again := expectWarm(t, r)
	s.mayWork.Store(false)
	if again.Epoch <= warm.Epoch {
		t.Errorf("the app that worked has epoch %d, and the warm app after it %d", warm.Epoch, again.Epoch)
	}
	s.expectIdle(t, again.Epoch, create)
	s.mayWork.Store(true)
	ensureWarm(t, r, config, false)
	s.expect(t, &s.reconciled, before, again.Epoch)
}

// listsOf returns a function that matches the requests of informers which list the objects at a path.
func listsOf(path string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.URL.Path == path && (!isWatch(r) || r.URL.Query().Get("sendInitialEvents") == "true")
	}
}

// The status of a warm remote has its modules, and says that they do not work. A module that fails at the start is started
// again, and is in the status meanwhile.
func TestRegistry_WarmModules(t *testing.T) {
	t.Parallel()
	var failures atomic.Int64
	fails := registry.NewModule("fails", registry.ModuleOptions{Remote: fx.Invoke(func(l fx.Lifecycle) {
		l.Append(fx.StartHook(func() error {
			if failures.Add(1) <= 2 {
				return errors.New("not yet")
			}
			return nil
		}))
	})})
	var s standby
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{fails, s.module()} })
	_, config := remote(t, "one")
	ensureWarm(t, r, config, true)
	info := expectState(t, r, "a", state.StateFailed, state.ReasonStartFailed)
	if m := info.Modules[0]; m.Name != "fails" || m.State != state.ModuleFailed || !strings.Contains(m.Message, "not yet") {
		t.Errorf("got module %+v after its start has failed", m)
	}
	info = expectWarm(t, r)
	if info.Restarts != 2 || info.Epoch == 0 || len(info.Modules) != 2 {
		t.Errorf("got %d restarts, epoch %d and modules %+v, want 2 restarts and two modules", info.Restarts, info.Epoch, info.Modules)
	}
	for _, m := range info.Modules {
		if m.State != state.ModuleStarting || m.Reason != state.ReasonStarting || !strings.Contains(m.Message, "waits") {
			t.Errorf("got %+v, want a module that waits", m)
		}
		for _, c := range m.Controllers {
			if c.State != state.ModuleStarting {
				t.Errorf("got %+v, want a controller that waits", c)
			}
		}
	}
	ensureWarm(t, r, config, false)
	info = expectState(t, r, "a", state.StateReady, state.ReasonReady)
	for _, m := range info.Modules {
		if m.State != state.ModuleRunning {
			t.Errorf("got %+v, want a module that runs", m)
		}
	}
}

// The informers of a warm app that cannot list and watch are in the status.
func TestRegistry_WarmStale(t *testing.T) {
	t.Parallel()
	for tolerance, want := range map[time.Duration]metav1.ConditionStatus{
		tolerant: metav1.ConditionUnknown, intolerant: metav1.ConditionFalse,
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			var s standby
			r, _ := soonStale(t, tolerance, s.module())
			f, config := newFront(t, fleettest.Cluster(t, "one"))
			ensureWarm(t, r, config, true)
			expectWarm(t, r)
			f.set(at(configMaps), refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError))
			var info registry.Status
			eventually(t, func() error {
				if info, _ = r.Status("a"); info.State != state.StateWarm || info.App.Reason != state.ReasonStale || info.App.Status != want {
					return fmt.Errorf("got state %s and %+v, want Warm and %s/Stale", info.State, info.App, want)
				}
				return nil
			})
			if m := info.Modules[0]; m.State != state.ModuleStarting || m.Reason != state.ReasonStale {
				t.Errorf("got module %+v, want Starting and Stale", m)
			}
			f.set(nil, nil)
			expectWarm(t, r)
		})
	}
}

// The removal of a warm remote runs no cleanup step and abandons none: the hub that has the remote at work cleans up. The
// steps of an app that was released are due.
func TestRegistry_RemoveWarm(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before    []state.Desired // after a first one, with which the remote is warm
		ran, left []string
	}{
		"it never worked":                      {before: nil},
		"it worked before":                     {before: []state.Desired{{}, {Warm: true}}},
		"it works":                             {before: []state.Desired{{}}, ran: []string{"steps/one"}},
		"the module that worked":               {before: []state.Desired{{}, {Modules: []string{"idle"}}}, left: []string{"steps/one"}},
		"that module, and then warm":           {before: []state.Desired{{}, {Modules: []string{"idle"}}, {Modules: []string{"idle"}, Warm: true}}},
		"it worked, and then the other module": {before: []state.Desired{{}, {Modules: []string{"idle"}, Warm: true}, {Modules: []string{"idle"}}}},
		"the other module works":               {before: []state.Desired{{Modules: []string{"idle"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex // protects ran
			var ran []string
			steps := registry.NewModule("steps", registry.ModuleOptions{Remote: fx.Provide(registry.AsCleanup(func() registry.CleanupStep {
				return registry.CleanupStep{Name: "steps/one", Run: func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					ran = append(ran, "steps/one")
					return nil
				}}
			}))})
			r := newRegistry(t, func(o *registry.Options) {
				o.Modules = []registry.Module{steps, registry.NewModule("idle", registry.ModuleOptions{})}
			})
			_, config := remote(t, "one")
			ensureWarm(t, r, config, true)
			config.Identity.Known = expectWarm(t, r).ID
			for _, change := range test.before {
				config.Modules = change.Modules
				ensureWarm(t, r, config, change.Warm)
				expectModules(t, r, config.Modules, change.Warm)
			}
			err := removeWithin(t, r, "a", patience)
			var left *registry.AbandonedError
			if errors.As(err, &left) != (test.left != nil) || left != nil && !slices.Equal(left.Steps, test.left) || left == nil && err != nil {
				t.Errorf("Remove: %v, want the abandoned steps %v", err, test.left)
			}
			if !slices.Equal(ran, test.ran) {
				t.Errorf("got steps %v, want %v", ran, test.ran)
			}
		})
	}
}

// expectModules waits until the remote is warm, or Ready, with these modules; nil for both.
func expectModules(t *testing.T, r *registry.Registry, modules []string, warm bool) {
	t.Helper()
	want := state.StateReady
	if warm {
		want = state.StateWarm
	}
	eventually(t, func() error {
		info, _ := r.Status("a")
		changing := info.App.Status != metav1.ConditionTrue && !warm // The app before is still in use.
		if info.State != want || changing || len(info.Modules) != 2 && modules == nil || len(info.Modules) != 1 && modules != nil {
			return fmt.Errorf("got state %s and modules %+v, want %s", info.State, info.Modules, want)
		}
		return nil
	})
}

func expectWarm(t *testing.T, r *registry.Registry) registry.Status {
	t.Helper()
	return expectState(t, r, "a", state.StateWarm, state.ReasonStarting)
}

func ensureWarm(t *testing.T, r *registry.Registry, config state.Desired, warm bool) {
	t.Helper()
	config.Warm = warm
	must(t, r.Ensure("a", config))
}
