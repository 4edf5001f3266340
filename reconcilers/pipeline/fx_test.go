// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// version returns a constructor of the set for the Widgets with that label.
func version(v string, j *journal) func() (pipeline.Set[*Widget], error) {
	return func() (pipeline.Set[*Widget], error) {
		return pipeline.Set[*Widget]{
			Name: v, Labels: map[string]string{"version": v},
			Resources: []pipeline.Resource[*Widget]{&part{name: v, journal: j}},
		}, nil
	}
}

func labeled(v string) func(*Widget) {
	return func(w *Widget) { w.Labels = map[string]string{"version": v} }
}

func TestModule_InTheHub(t *testing.T) {
	t.Parallel()
	var j journal
	s := newSite(t)
	mgr := s.manager()
	other := named(pipeline.Options[*Widget]{ConditionPrefix: "Other"})
	other.Name = "others"
	must(t, fx.New(
		fx.NopLogger,
		fx.Provide(func() ctrl.Manager { return mgr }),
		// The pipeline, and two modules that know nothing of each other.
		pipeline.Module(named(pipeline.Options[*Widget]{})),
		fx.Module("one", pipeline.AsSet[*Widget](name, version("v1", &j))),
		fx.Module("two", pipeline.AsSet[*Widget](name, version("v2", &j))),
		// Another pipeline for the same kind has sets of its own.
		pipeline.Module(other),
		pipeline.AsSet[*Widget]("others", version("v3", &j)),
	).Err())
	s.run(mgr)
	s.newWidget("a", labeled("v1"))
	s.newWidget("b", labeled("v2"))
	s.newWidget("c", labeled("v3"))
	s.expectSoon("a", metav1.ConditionTrue, pipeline.ReasonReady)
	s.expectSoon("b", metav1.ConditionTrue, pipeline.ReasonReady)
	s.eventually(func() error {
		if j.count("create v3") == 0 {
			return errors.New("the other pipeline has done nothing")
		}
		return nil
	})
	if f := s.get("c").Finalizers; len(f) != 1 || f[0] != pipeline.Prefix+"others" {
		t.Errorf("finalizers = %v", f)
	}
}

func TestModule_InARemote(t *testing.T) {
	t.Parallel()
	var j journal
	hub, remote := fleettest.Cluster(t, "hub"), fleettest.Cluster(t, "remote")
	s := siteIn(t, remote)
	newSet := func(p registry.Remote) (pipeline.Set[*Widget], error) {
		set := every(&part{name: string(p.Cluster), journal: &j})
		var err error
		set.Resources, err = pipeline.WithMetrics(
			pipeline.WithRetry(set.Resources, wait.Backoff{}), p.Metrics, "widgets")
		return set, err
	}
	metrics := prometheus.NewPedanticRegistry()
	r := newRegistry(t, hub.Config(), registry.Options{
		Scheme: scheme(t), AllowDuplicates: true, Metrics: metrics,
		Policy: kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Modules: []registry.Module{registry.NewModule("widgets", registry.ModuleOptions{
			Remote: fx.Options(
				pipeline.Module(named(pipeline.Options[*Widget]{})),
				pipeline.AsSet[*Widget](name, newSet),
			),
		})},
	})
	data := map[string][]byte{"kubeconfig": remote.Kubeconfig()}
	connection, err := kubeconfig.Parse(data, kubeconfig.Options{}, kubeconfig.Policy{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, r.Spawn(ctx, "edge", registry.Config{Endpoint: connection.Endpoint, Credential: connection.Credential}))

	s.newWidget("w")
	s.expectSoon("w", metav1.ConditionTrue, pipeline.ReasonReady)
	if gathered(t, metrics, "clusterfx_pipeline_operations_total")["widgets edge EnsureCreated"] == 0 {
		t.Error("nothing was measured")
	}
	s.remove("w")
	s.expectGone("w")
	if n := j.count("delete edge"); n != 1 {
		t.Errorf("deleted %d times", n)
	}
}

func newRegistry(t *testing.T, hub *rest.Config, o registry.Options) *registry.Registry {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(hub)
	must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	mapper, err := apiutil.NewDynamicRESTMapper(hub, httpClient)
	must(t, err)
	o.Hub, o.HubMapper = hub, mapper
	r, err := registry.New(o)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestModule_Mistakes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	err := func(parts ...fx.Option) error {
		return fx.New(append(parts, fx.NopLogger, fx.Provide(s.manager))...).Err()
	}
	noSets := err(pipeline.Module(named(pipeline.Options[*Widget]{})))
	if noSets == nil || !strings.Contains(noSets.Error(), "needs a set") {
		t.Errorf("a pipeline without sets: %v", noSets)
	}
	for sentence, constructor := range map[string]any{
		"nothing": nil, "no function": 1, "another type": func() *Widget { return nil }, "no result": func() {},
		"a pointer": func() *pipeline.Set[*Widget] { return nil },
	} {
		if err := err(pipeline.AsSet[*Widget](name, constructor)); !errors.Is(err, pipeline.ErrInvalidConfig) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}
