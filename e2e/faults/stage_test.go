// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// stage is a fleet with a hub that runs in this process, and the observers of both.
type stage struct {
	t         *testing.T
	fleet     *fleet.Fleet
	hub       *fleet.Cluster
	brittle   *fleet.Cluster // nil if no test needs it
	etcd      *etcd          // the etcd of brittle, or of the hub
	admin     client.Client  // of the hub
	scheme    *runtime.Scheme
	history   *history
	stopwatch *stopwatch
	options   stageOptions
	log       *log
	running   atomic.Pointer[registry.Registry] // of the hub; nil if none runs
	elected   atomic.Pointer[time.Time]         // when the running hub got its Lease
}

// stageOptions configure a stage. The zero value is a hub with the stopwatch as its only module.
type stageOptions struct {
	// fleet configures the API servers.
	fleet fleet.Options
	// modules returns the modules of the hub in addition to the stopwatch, which they may use.
	modules func(*stopwatch) []registry.Module
	// flags are additional flags of the API servers, by the names of their clusters.
	flags map[string][]string
	// hub changes the options of the hub. Default: no change.
	hub func(*app.Options)
	// hubEtcd gives the hub's cluster an etcd of its own, which can be restored.
	hubEtcd bool
}

// newStage starts a fleet with the hub's cluster and the clusters of these names. It does not start the hub.
func newStage(t *testing.T, o stageOptions, clusters ...string) *stage {
	t.Helper()
	s := &stage{t: t, options: o, scheme: fleettest.Scheme(t, hubv1.AddToScheme), stopwatch: newStopwatch(), log: newLog(t)}
	s.fleet = fleettest.New(t, o.fleet)
	var starting sync.WaitGroup
	for _, name := range clusters {
		starting.Go(func() { s.newCluster(t, name) })
	}
	starting.Go(func() { s.hub = s.newHubCluster(t) })
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	s.admin = s.clientFor(t, s.hub.Config())
	fleettest.InstallCRDs(t, s.hub.Config())
	must(t, s.admin.Create(t.Context(), namespace(hubv1.DefaultNamespace)))
	s.history = newHistory(s)
	return s
}

// newCluster starts another API server.
func (s *stage) newCluster(t testing.TB, name string) *fleet.Cluster {
	t.Helper()
	c, err := s.fleet.Create(t.Context(), name, s.options.flags[name]...)
	testkit.NoError(t, err, "start a cluster")
	return c
}

// newHubCluster starts the API server of the hub.
func (s *stage) newHubCluster(t *testing.T) *fleet.Cluster {
	t.Helper()
	const name = "hub"
	if !s.options.hubEtcd {
		return s.newCluster(t, name)
	}
	s.etcd = startEtcd(t)
	c, err := s.etcd.fleet(t, s.options.fleet).Create(t.Context(), name, s.options.flags[name]...)
	testkit.NoError(t, err, "start the hub's cluster")
	return c
}

func (s *stage) cluster(name string) *fleet.Cluster {
	c := s.fleet.Cluster(name)
	if c == nil {
		s.t.Fatalf("there is no cluster %s", name)
	}
	return c
}

// hubOptions returns the options of a hub that may connect to remotes on this machine, under many names.
func (s *stage) hubOptions() app.Options {
	o := app.Options{Config: s.hub.Config(), Log: s.log.logger()}
	o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	o.Registry.AllowDuplicates, o.Registry.Replica = true, replica
	o.Modules = append(o.Modules, s.stopwatch.module(), s.module())
	o.Alone = true
	if s.options.modules != nil {
		o.Modules = append(o.Modules, s.options.modules(s.stopwatch)...)
	}
	if s.options.hub != nil {
		s.options.hub(&o)
	}
	return o
}

// replica is the name of the hub in user agents.
const replica = "faults"

func (s *stage) module() registry.Module {
	return registry.NewModule("stage", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Invoke(s.running.Store)})
}

func (s *stage) startHub() (stop func()) {
	s.t.Helper()
	s.running.Store(nil)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var ended sync.WaitGroup
	options := s.hubOptions()
	ended.Go(func() { testkit.NoError(s.t, app.Run(ctx, options), "run the hub") })
	stop = sync.OnceFunc(func() {
		cancel()
		ended.Wait()
		s.running.Store(nil)
	})
	s.t.Cleanup(stop)
	eventually(s.t, func() error {
		if s.remotes() == nil {
			return errors.New("the hub has not started")
		}
		return nil
	})
	return stop
}

// remotes returns the registry of the running hub; nil if none runs.
func (s *stage) remotes() *registry.Registry { return s.running.Load() }

// clientFor returns a client without a cache, whose connections are closed when the test ends.
func (s *stage) clientFor(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	return fleettest.ClientFor(t, config, hubv1.AddToScheme)
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

var must, eventually = testkit.Must, testkit.Eventually

func conditionText(c *hubv1.Cluster) string {
	text := fmt.Sprintf("generation %d, observed %d", c.Generation, c.Status.ObservedGeneration)
	for _, one := range c.Status.Conditions {
		text += fmt.Sprintf("\n  %s=%s/%s: %s", one.Type, one.Status, one.Reason, one.Message)
	}
	return text
}
