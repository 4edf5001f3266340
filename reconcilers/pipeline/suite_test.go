// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(6)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

const (
	name      = "widgets" // of the pipelines
	finalizer = pipeline.Prefix + name
	foreign   = "example.com/foreign"
)

var errBroken = errors.New("broken")

// server is a namespace of a real API server that serves Widgets.
type server struct {
	servertest.Kind[Widget, *Widget]
}

// newServer returns a namespace of the cluster that the tests share.
func newServer(t testing.TB) *server {
	t.Helper()
	return serverIn(t, fleettest.Cluster(t, "hub").Config())
}

func serverIn(t testing.TB, config *rest.Config) *server {
	t.Helper()
	s := &server{servertest.NewKind[Widget](t, config, addWidgets)}
	ctx, cancel := context.WithTimeout(t.Context(), servertest.Patience)
	defer cancel()
	must(t, pipeline.EnsureCRD(ctx, s, fleettest.CRD(t, widgets.WithKind("Widget"), widgetSchema)))
	// An overloaded API server establishes a CRD before its discovery lists the kind.
	s.Eventually(func() error { return s.List(ctx, &WidgetList{}, client.InNamespace(s.Namespace)) })
	return s
}

// expect checks the condition Ready, and the other conditions that are True.
func (s *server) expect(name string, status metav1.ConditionStatus, reason string, also ...string) *Widget {
	s.T.Helper()
	w := s.Read(name)
	testkit.NoError(s.T, check(w, status, reason, also...))
	return w
}

func (s *server) expectSoon(name string, status metav1.ConditionStatus, reason string, also ...string) *Widget {
	s.T.Helper()
	var w *Widget
	s.Eventually(func() error {
		w = s.Read(name)
		return check(w, status, reason, also...)
	})
	return w
}

func check(w *Widget, status metav1.ConditionStatus, reason string, also ...string) error {
	ready := meta.FindStatusCondition(w.Status.Conditions, "Ready")
	var others []string
	for _, c := range w.Status.Conditions {
		if c.Type != "Ready" && c.Status == metav1.ConditionTrue {
			others = append(others, c.Type)
		}
	}
	if ready == nil || ready.Status != status || ready.Reason != reason ||
		ready.ObservedGeneration != w.Generation || !slices.Equal(others, also) {
		return fmt.Errorf("%s, generation %d: want Ready=%s/%s and %v, got %+v",
			w.Name, w.Generation, status, reason, also, w.Status.Conditions)
	}
	return nil
}

// hand is a pipeline whose passes a test calls directly, with live reads.
type hand struct {
	*server
	reconcile.Reconciler
}

func (s *server) byHand(o pipeline.Options[*Widget], sets ...pipeline.Set[*Widget]) hand {
	s.T.Helper()
	return hand{s, newReconciler(s.T, s, o, sets...)}
}

func newReconciler(
	t testing.TB, c client.Client, o pipeline.Options[*Widget], sets ...pipeline.Set[*Widget],
) reconcile.Reconciler {
	t.Helper()
	r, err := pipeline.NewReconciler(c, router(t, sets...), named(o))
	must(t, err)
	return r
}

func named(o pipeline.Options[*Widget]) pipeline.Options[*Widget] {
	o.Name = name
	if o.Conditions == nil {
		o.Conditions = conditions
	}
	return o
}

func router(t testing.TB, sets ...pipeline.Set[*Widget]) *pipeline.Router[*Widget] {
	t.Helper()
	r, err := pipeline.NewRouter(sets...)
	must(t, err)
	return r
}

func (h hand) pass(name string) (reconcile.Result, error) {
	return h.Reconcile(h.T.Context(), reconcile.Request{NamespacedName: h.Key(name)})
}

// passes runs some passes that must succeed.
func (h hand) passes(name string, n int) {
	h.T.Helper()
	for range n {
		must(h.T, testkit.Err(h.pass(name)))
	}
}

func (s *server) start(o pipeline.Options[*Widget], sets ...pipeline.Set[*Widget]) (stop func()) {
	s.T.Helper()
	mgr := s.Manager()
	must(s.T, pipeline.AddTo(mgr, router(s.T, sets...), named(o)))
	return s.Run(mgr)
}

// part is a resource that records its calls.
type part struct {
	name             string
	journal          *servertest.Journal
	created, deleted func(context.Context, *Widget) error
}

func (p *part) Name() string { return p.name }

func (p *part) EnsureCreated(ctx context.Context, w *Widget) error {
	p.journal.Note("create %s", p.name)
	if p.created == nil {
		return nil
	}
	return p.created(ctx, w)
}

func (p *part) EnsureDeleted(ctx context.Context, w *Widget) error {
	p.journal.Note("delete %s", p.name)
	if p.deleted == nil {
		return nil
	}
	return p.deleted(ctx, w)
}

func every(resources ...pipeline.Resource[*Widget]) pipeline.Set[*Widget] {
	return pipeline.Set[*Widget]{
		Name: "every", Handles: func(*Widget) bool { return true }, Resources: resources,
	}
}

// gathered returns the values of a metric by service, resource and operation; for a histogram the counts.
func gathered(t testing.TB, from prometheus.Gatherer, metric string) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	must(t, err)
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			key := labels["service"] + " " + labels["resource"] + " " + labels["operation"]
			values[key] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}
