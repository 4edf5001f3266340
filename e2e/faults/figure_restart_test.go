// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// TestFigure_Restart measures the time from the Lease of a restarted hub until all of its remotes are Ready, and
// compares it with a registry that gets the same remotes at once, as in BenchmarkEngage.
func TestFigure_Restart(t *testing.T) {
	fleettest.Slow(t, "nothing: figures are measured on an idle machine")
	const remotes, rounds = 200, 3
	on := []string{"one", "two", "three"}
	var s *stage
	s = newStage(t, stageOptions{
		hub: func(o *app.Options) { o.Alone, o.Shards = false, 16 },
		modules: func(*stopwatch) []registry.Module {
			return []registry.Module{registry.NewModule("elected", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Invoke(s.noteElection)})}
		},
	}, on...)
	stop := s.startHub()
	all := s.newCrowd(t, crowd{n: remotes, on: on})
	expectAllReady(t, all)
	stop()
	var plain, restarted []time.Duration
	for range rounds {
		plain = append(plain, s.engage(t, all))
		s.elected.Store(nil)
		stop := s.startHub()
		end := s.awaitReady(t, s.remotes(), len(all))
		restarted = append(restarted, end.Sub(*s.elected.Load()))
		stop()
	}
	goal := percentile(plain, 50) * 11 / 10
	report(t, figure{
		what:     fmt.Sprintf("hub restart with %d remotes, from lease to all Ready", remotes),
		goal:     fmt.Sprintf("the registry alone + 10 %% = %s", short(goal)),
		measured: fmt.Sprintf("median %s; the registry alone: median %s, n=%d", percentile(restarted, 50), percentile(plain, 50), rounds),
		met:      percentile(restarted, 50) <= goal,
		far:      percentile(restarted, 50) > farOff*percentile(plain, 50),
	})
}

// noteElection records the time at which the hub gets its Lease, and with it the shards.
func (s *stage) noteElection(mgr ctrl.Manager) error {
	return mgr.Add(manager.RunnableFunc(func(context.Context) error {
		now := time.Now()
		s.elected.Store(&now)
		return nil
	}))
}

func (s *stage) awaitReady(t *testing.T, r *registry.Registry, n int) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	eventually(t, func() error {
		if known := len(r.List()); known < n {
			return fmt.Errorf("the registry has %d remotes", known)
		}
		return nil
	})
	for _, info := range r.List() {
		must(t, r.WaitReady(ctx, info.Name))
	}
	return time.Now()
}

// engage gives the remotes to a new registry, and returns the time until all are Ready.
func (s *stage) engage(t *testing.T, all []*remote) time.Duration {
	t.Helper()
	o := s.hubOptions().Registry
	o.Hub, o.Scheme, o.Modules = s.hub.Config(), s.scheme, []registry.Module{s.stopwatch.module()}
	o.HubMapper = fleettest.Mapper(t, o.Hub)
	r, err := registry.New(o)
	must(t, err)
	configs := map[registry.ClusterName]state.Desired{}
	for _, one := range all {
		c, err := kubeconfig.Parse(map[string][]byte{"kubeconfig": one.on.Kubeconfig()}, kubeconfig.Options{}, o.Policy)
		must(t, err)
		configs[registry.ClusterName(one.name)] = state.Desired{
			Endpoint: c.Endpoint, Credential: c.Credential, Namespaces: []string{one.name},
		}
	}
	began := time.Now()
	for name, config := range configs {
		must(t, r.Ensure(name, config))
	}
	took := s.awaitReady(t, r, len(all)).Sub(began)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, r.Shutdown(ctx))
	return took
}
