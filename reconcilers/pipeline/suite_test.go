// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

const (
	patience  = 30 * time.Second // for what should come within a second or two
	name      = "widgets"        // of the pipelines
	finalizer = pipeline.Prefix + name
	foreign   = "example.com/foreign"
)

var errBroken = errors.New("broken")

// site is a namespace of a real API server that knows Widgets.
type site struct {
	t         testing.TB
	config    *rest.Config
	namespace string
	client.WithWatch
}

// newSite returns a namespace of the cluster that the tests share.
func newSite(t testing.TB) *site {
	t.Helper()
	return siteIn(t, fleettest.Cluster(t, "hub"))
}

func siteIn(t testing.TB, cluster *fleet.Cluster) *site {
	t.Helper()
	config := cluster.Config()
	config.QPS = -1
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	direct, err := client.NewWithWatch(config, client.Options{HTTPClient: httpClient, Scheme: scheme(t)})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, pipeline.EnsureCRD(ctx, direct, crd("widgets", "Widget")))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pipeline-"}}
	must(t, direct.Create(t.Context(), namespace))
	return &site{t: t, config: config, namespace: namespace.Name, WithWatch: direct}
}

// newWidget creates a Widget.
func (s *site) newWidget(name string, change ...func(*Widget)) *Widget {
	s.t.Helper()
	w := &Widget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}}
	for _, f := range change {
		f(w)
	}
	must(s.t, s.Create(s.t.Context(), w))
	return w
}

func (s *site) get(name string) *Widget {
	s.t.Helper()
	w := &Widget{}
	must(s.t, s.Get(s.t.Context(), s.key(name), w))
	return w
}

func (s *site) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

func (s *site) change(name string, f func(*Widget)) {
	s.t.Helper()
	s.eventually(func() error {
		w := s.get(name)
		f(w)
		return s.Update(s.t.Context(), w)
	})
}

// remove deletes a Widget, which its finalizers may keep.
func (s *site) remove(name string) {
	s.t.Helper()
	must(s.t, s.Delete(s.t.Context(), &Widget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}}))
}

func (s *site) isGone(name string) error {
	err := s.Get(s.t.Context(), s.key(name), &Widget{})
	if err == nil {
		return fmt.Errorf("%s is still there", name)
	}
	return client.IgnoreNotFound(err)
}

func (s *site) expectGone(name string) {
	s.t.Helper()
	s.eventually(func() error { return s.isGone(name) })
}

// expect checks the condition Ready and what else is True.
func (s *site) expect(name string, status metav1.ConditionStatus, reason string, also ...string) *Widget {
	s.t.Helper()
	w := s.get(name)
	if err := check(w, status, reason, also...); err != nil {
		s.t.Error(err)
	}
	return w
}

func (s *site) expectSoon(name string, status metav1.ConditionStatus, reason string, also ...string) *Widget {
	s.t.Helper()
	var w *Widget
	s.eventually(func() error {
		w = s.get(name)
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
		return fmt.Errorf("%s, generation %d: want Ready=%s/%s and %v, have %+v",
			w.Name, w.Generation, status, reason, also, w.Status.Conditions)
	}
	return nil
}

func (s *site) eventually(f func() error) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(f).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(gomega.Succeed())
}

// hand is a pipeline that a test runs by hand, pass by pass, with live reads.
type hand struct {
	*site
	reconcile.Reconciler
}

func (s *site) byHand(o pipeline.Options[*Widget], sets ...pipeline.Set[*Widget]) hand {
	s.t.Helper()
	return hand{s, newReconciler(s.t, s, o, sets...)}
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

// pass runs one pass and returns what it returned.
func (h hand) pass(name string) (reconcile.Result, error) {
	return h.Reconcile(h.t.Context(), reconcile.Request{NamespacedName: h.key(name)})
}

// passes runs some passes that must succeed.
func (h hand) passes(name string, n int) {
	h.t.Helper()
	for range n {
		_, err := h.pass(name)
		must(h.t, err)
	}
}

// start runs the pipeline in a manager until the test ends or stop is called.
func (s *site) start(o pipeline.Options[*Widget], sets ...pipeline.Set[*Widget]) (stop func()) {
	s.t.Helper()
	mgr := s.manager()
	must(s.t, pipeline.AddTo(mgr, router(s.t, sets...), named(o)))
	return s.run(mgr)
}

func (s *site) manager() ctrl.Manager {
	s.t.Helper()
	mgr, err := ctrl.NewManager(s.config, ctrl.Options{
		Scheme: scheme(s.t), Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
	})
	must(s.t, err)
	return mgr
}

func (s *site) run(mgr ctrl.Manager) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			s.t.Errorf("the manager ended: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	s.t.Cleanup(stop)
	return stop
}

// journal is what happened, in order.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, fmt.Sprintf(format, args...))
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries)
}

// count returns how often something happened.
func (j *journal) count(entry string) int {
	n := 0
	for _, e := range j.all() {
		if e == entry {
			n++
		}
	}
	return n
}

func (j *journal) expect(t testing.TB, entries ...string) {
	t.Helper()
	if got := j.all(); !slices.Equal(got, entries) {
		t.Errorf("want %q, have %q", entries, got)
	}
}

// part is a resource that notes what it is asked for.
type part struct {
	name             string
	journal          *journal
	created, deleted func(context.Context, *Widget) error
}

func (p *part) Name() string { return p.name }

func (p *part) EnsureCreated(ctx context.Context, w *Widget) error {
	p.journal.note("create %s", p.name)
	if p.created == nil {
		return nil
	}
	return p.created(ctx, w)
}

func (p *part) EnsureDeleted(ctx context.Context, w *Widget) error {
	p.journal.note("delete %s", p.name)
	if p.deleted == nil {
		return nil
	}
	return p.deleted(ctx, w)
}

// every returns a set for every Widget.
func every(resources ...pipeline.Resource[*Widget]) pipeline.Set[*Widget] {
	return pipeline.Set[*Widget]{
		Name: "every", Handles: func(*Widget) bool { return true }, Resources: resources,
	}
}

// gathered returns the values of a metric by service, resource and operation; of a histogram the counts.
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
