// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
	"github.com/clusterfx/clusterfx/registry"
)

func version(v string, j *servertest.Journal) func() (pipeline.Set[*Widget], error) {
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
	var j servertest.Journal
	s := newServer(t)
	mgr := s.Manager()
	other := named(pipeline.Options[*Widget]{ConditionPrefix: "Other"})
	other.Name = "others"
	must(t, fx.New(
		fx.NopLogger,
		fx.Provide(func() ctrl.Manager { return mgr }),
		// The pipeline, and two independent modules.
		pipeline.Module(named(pipeline.Options[*Widget]{})),
		fx.Module("one", pipeline.AsSet[*Widget](name, version("v1", &j))),
		fx.Module("two", pipeline.AsSet[*Widget](name, version("v2", &j))),
		// Another pipeline for the same kind has its own sets.
		pipeline.Module(other),
		pipeline.AsSet[*Widget]("others", version("v3", &j)),
	).Err())
	s.Run(mgr)
	s.Make("a", labeled("v1"))
	s.Make("b", labeled("v2"))
	s.Make("c", labeled("v3"))
	s.expectSoon("a", metav1.ConditionTrue, pipeline.ReasonReady)
	s.expectSoon("b", metav1.ConditionTrue, pipeline.ReasonReady)
	s.Eventually(func() error {
		if j.Count("create v3") == 0 {
			return errors.New("the other pipeline has done nothing")
		}
		return nil
	})
	if f := s.Read("c").Finalizers; len(f) != 1 || f[0] != pipeline.Prefix+"others" {
		t.Errorf("got finalizers %v", f)
	}
}

func TestModule_InARemote(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	hub, remote := fleettest.Cluster(t, "hub"), fleettest.Cluster(t, "remote")
	s := serverIn(t, remote.Config())
	newSet := func(p registry.Remote) (pipeline.Set[*Widget], error) {
		set := every(&part{name: string(p.Name), journal: &j})
		var err error
		set.Resources, err = pipeline.WithMetrics(
			pipeline.WithRetry(set.Resources, wait.Backoff{}), p.Metrics, "widgets")
		return set, err
	}
	metrics := prometheus.NewPedanticRegistry()
	r := servertest.NewRegistry(t, hub.Config(), registry.Options{
		Scheme: fleettest.Scheme(t, addWidgets), Metrics: metrics,
		Modules: []registry.Module{registry.NewModule("widgets", registry.ModuleOptions{
			Remote: fx.Options(
				pipeline.Module(named(pipeline.Options[*Widget]{})),
				pipeline.AsSet[*Widget](name, newSet),
			),
		})},
	})
	servertest.Spawn(t, r, "edge", remote.Kubeconfig())
	s.Make("w")
	s.expectSoon("w", metav1.ConditionTrue, pipeline.ReasonReady)
	if gathered(t, metrics, "clusterfx_pipeline_operations_total")["widgets edge EnsureCreated"] == 0 {
		t.Error("metrics lack the operations of the remote")
	}
	s.Remove("w")
	s.ExpectGone("w")
	testkit.Equal(t, j.Count("delete edge"), 1, "deletions")
}

// Any invoke may add a kind to the scheme, before or after the pipeline.
func TestModule_KindsAreAddedByAnInvoke(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	kinds := fx.Invoke(func(mgr ctrl.Manager) error { return addWidgets(mgr.GetScheme()) })
	pipe := fx.Options(pipeline.Module(named(pipeline.Options[*Widget]{})), pipeline.AsSet[*Widget](name, version("v1", &servertest.Journal{})))
	err := servertest.ExpectKindsInAnyOrder(t, s.Manager().GetConfig(), kinds, pipe)
	testkit.ErrorIs(t, err, pipeline.ErrInvalidConfig, "kind that no invoke adds")
}

func TestModule_Mistakes(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	err := func(parts ...fx.Option) error {
		return fx.New(append(parts, fx.NopLogger, fx.Provide(s.Manager))...).Err()
	}
	noSets := err(pipeline.Module(named(pipeline.Options[*Widget]{})))
	if noSets == nil || !strings.Contains(noSets.Error(), "needs a set") {
		t.Errorf("pipeline without sets: got %v", noSets)
	}
	for sentence, constructor := range map[string]any{
		"nothing": nil, "no function": 1, "another type": func() *Widget { return nil }, "no result": func() {},
		"a pointer": func() *pipeline.Set[*Widget] { return nil },
	} {
		testkit.ErrorIs(t, err(pipeline.AsSet[*Widget](name, constructor)), pipeline.ErrInvalidConfig, sentence)
	}
}
