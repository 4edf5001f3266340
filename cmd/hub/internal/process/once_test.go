// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// testHub is the hub's cluster of a test with a credentials namespace of its own.
type testHub struct {
	client.Client
	t       *testing.T
	cluster *fleet.Cluster
	name    string // of the namespace
}

func newTestHub(t *testing.T) *testHub {
	t.Helper()
	c := fleettest.Cluster(t, "hub")
	fleettest.InstallCRDs(t, c.Config())
	hub := fleettest.Client(t, c, hubv1.AddToScheme)
	s := &testHub{Client: hub, t: t, cluster: c, name: "once-" + rand.String(5)}
	must(t, hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}))
	return s
}

func (s *testHub) register(name string) {
	s.t.Helper()
	must(s.t, s.Create(s.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.name, Name: name, Labels: map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
	}}))
}

func (s *testHub) registered(name string) bool {
	s.t.Helper()
	err := s.Get(s.t.Context(), client.ObjectKey{Name: name}, &hubv1.Cluster{})
	must(s.t, client.IgnoreNotFound(err))
	return err == nil
}

func (s *testHub) expectRegistered(name string) {
	s.t.Helper()
	eventually(s.t, func() error {
		if !s.registered(name) {
			return fmt.Errorf("there is no Cluster %s", name)
		}
		return nil
	})
}

func (s *testHub) options(once registry.Turn) hubOptions {
	s.t.Helper()
	o, err := Options{Config: s.cluster.Config(), Log: testkit.Log(s.t), CredentialsNamespace: s.name, Alone: true}.withDefaults()
	must(s.t, err)
	return hubOptions{Options: o, once: once}
}

// turns is a turn that a test ends. The next one begins at once.
type turns struct {
	mu   sync.Mutex
	now  context.Context //nolint:containedctx // Ends with the turn.
	stop context.CancelCauseFunc
}

func newTurns() *turns {
	t := &turns{}
	t.end()
	return t
}

func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop != nil {
		t.stop(registry.ErrStandby)
	}
	t.now, t.stop = context.WithCancelCause(context.WithoutCancel(context.TODO())) //nolint:forbidigo // It ends with end.
}

func (t *turns) Await(ctx context.Context) (lasts context.Context, ended func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now, func() {}, context.Cause(ctx)
}

func (t *turns) Check() error { return nil }

func (t *turns) Count() func() { return func() {} }

// run runs a manager of a hub with parts, until the test ends or end is called.
func (s *testHub) run(option fx.Option) (end func()) {
	s.t.Helper()
	scheme, err := newScheme()
	must(s.t, err)
	o := ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}}
	o.Controller.SkipNameValidation = new(true)
	mgr, err := ctrl.NewManager(s.cluster.Config(), o)
	must(s.t, err)
	remotes, err := registry.New(registry.Options{Hub: mgr.GetConfig(), HubMapper: mgr.GetRESTMapper(), Scheme: scheme})
	must(s.t, err)
	s.t.Cleanup(func() { _ = remotes.Shutdown(later(s.t)) })
	must(s.t, fx.New(fx.NopLogger, fx.Provide(func() ctrl.Manager { return mgr }), fx.Supply(remotes), option).Err())
	return testkit.Background(s.t, mgr.Start)
}

// Registration works in the hub's own manager if the hub is alone, and in one of its own in a turn.
func TestRunsOnce_Registers(t *testing.T) {
	t.Parallel()
	s := newTestHub(t)
	for _, once := range []registry.Turn{nil, newTurns()} {
		o := s.options(once)
		end := s.run(fx.Options(fx.Supply(o.Log), o.registration()))
		name := s.name + "-" + rand.String(5)
		s.register(name)
		s.expectRegistered(name)
		end()
	}
}

// A manager that ends during a turn is built again, and the clients of a manager write no longer than its turn.
func TestRunsOnce_ManagerEnds(t *testing.T) {
	t.Parallel()
	s := newTestHub(t)
	one := newTurns()
	managers := make(chan ctrl.Manager, 10)
	var failures atomic.Int64
	end := s.run(fx.Invoke(func(hub ctrl.Manager) error {
		return hub.Add(&runsOnce{options: s.options(one), hub: hub, retry: 50 * time.Millisecond, setUp: func(mgr ctrl.Manager) error {
			switch failures.Add(1) {
			case 1:
				return errors.New("not now")
			case 2:
				return mgr.Add(manager.RunnableFunc(func(context.Context) error { return errors.New("the end") }))
			}
			return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
				managers <- mgr
				<-ctx.Done()
				return nil
			}))
		}})
	}))
	t.Cleanup(end)
	write := func(mgr ctrl.Manager) error {
		return mgr.GetClient().Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.name, GenerateName: "one-"},
		}, client.DryRunAll)
	}
	next := func() ctrl.Manager {
		t.Helper()
		select {
		case mgr := <-managers:
			return mgr
		case <-time.After(patience):
			t.Fatal("no manager works")
			return nil
		}
	}
	mgr := next()
	must(t, write(mgr))
	one.end()
	testkit.ErrorIs(t, write(mgr), registry.ErrStandby, "a client writes after the turn")
	must(t, write(next()))
	testkit.ErrorIs(t, write(mgr), registry.ErrStandby, "a client of the first turn writes in the second")
}
