// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// The tests of this file and of operatorkit_reconcile_test.go are named after the known flaws of operatorkit's
// framework. The flaws in this file concern the parts of a pipeline.

// D2: after a canceled resource, all later CRUD resources were skipped.
func TestD2_CancelingOneResourceLeavesTheOthers(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	first := &machine{name: "first", journal: &j, at: map[string]func(context.Context) error{
		"GetDesiredState": func(ctx context.Context) error {
			pipeline.FlowFrom(ctx).CancelResource("not yet")
			return nil
		},
	}}
	resources := []pipeline.Resource[*Widget]{first.crud(t), (&machine{name: "second", journal: &j}).crud(t)}
	want := []string{
		"first GetCurrentState", "first GetDesiredState",
		"second GetCurrentState", "second GetDesiredState", "second NewUpdatePatch",
	}
	must(t, pipeline.ProcessUpdate(t.Context(), &Widget{}, resources))
	j.Expect(t, want...)

	first.at = nil // The next pass retries it.
	must(t, pipeline.ProcessUpdate(t.Context(), &Widget{}, resources))
	j.Expect(t, append(want,
		"first GetCurrentState", "first GetDesiredState", "first NewUpdatePatch",
		"second GetCurrentState", "second GetDesiredState", "second NewUpdatePatch")...)
}

// D6: a CRD that was not established in time was deleted, with all of its objects.
func TestD6_CRDsAreNeverDeleted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	first := fleettest.CRD(t, widgets.WithKind("Gadget-"+s.Namespace), "")
	second := first.DeepCopy() // Both request the kind.
	second.Spec.Names.Plural = "gizmos-" + s.Namespace
	second.Name = second.Spec.Names.Plural + "." + widgets.Group
	must(t, pipeline.EnsureCRD(t.Context(), s, first))
	must(t, pipeline.EnsureCRD(t.Context(), s, first))
	for conflict := false; !conflict; { // A slow API server may not report the conflict within the first call.
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := pipeline.EnsureCRD(ctx, s, second)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got error %v, want DeadlineExceeded", err)
		}
		conflict = strings.Contains(err.Error(), "already in use")
	}
	for _, c := range []*apiextensionsv1.CustomResourceDefinition{first, second} {
		var found apiextensionsv1.CustomResourceDefinition
		must(t, s.Get(t.Context(), client.ObjectKeyFromObject(c), &found))
		if found.DeletionTimestamp != nil {
			t.Errorf("CRD %s is being deleted", c.Name)
		}
	}
	t.Run("nor fought over", func(t *testing.T) {
		var found apiextensionsv1.CustomResourceDefinition
		must(t, s.Get(t.Context(), client.ObjectKeyFromObject(first), &found))
		found.Spec.Names.Singular = "thing"
		must(t, s.Update(t.Context(), &found)) // the version of another client
		if err := pipeline.EnsureCRD(t.Context(), s, first); !apierrors.IsConflict(err) {
			t.Errorf("got error %v, want a conflict", err)
		}
	})
}

// D10: a wrapper changed the wrapped resource.
func TestD10_DecoratorsArePure(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	shared := []pipeline.Resource[*Widget]{(&machine{name: "crud", journal: &j}).crud(t), &part{name: "part", journal: &j}}
	measured := func(service string, reg prometheus.Registerer) []pipeline.Resource[*Widget] {
		rs, err := pipeline.WithMetrics(pipeline.WithRetry(shared, wait.Backoff{Steps: 3}), reg, service)
		must(t, err)
		return rs
	}
	reg := prometheus.NewPedanticRegistry()
	one, two := measured("one", reg), measured("two", reg)
	must(t, pipeline.ProcessUpdate(t.Context(), &Widget{}, shared))
	if measured := gathered(t, reg, "clusterfx_pipeline_operations_total"); len(measured) > 0 {
		t.Errorf("original resources are measured: %v", measured)
	}
	for range 2 {
		must(t, pipeline.ProcessUpdate(t.Context(), &Widget{}, one))
	}
	must(t, pipeline.ProcessUpdate(t.Context(), &Widget{}, two))
	want := map[string]float64{
		"one crud GetCurrentState": 2, "one crud GetDesiredState": 2, "one crud NewUpdatePatch": 2, "one part EnsureCreated": 2,
		"two crud GetCurrentState": 1, "two crud GetDesiredState": 1, "two crud NewUpdatePatch": 1, "two part EnsureCreated": 1,
	}
	for _, metric := range []string{"clusterfx_pipeline_operations_total", "clusterfx_pipeline_operation_duration_seconds"} {
		testkit.Equal(t, gathered(t, reg, metric), want, metric)
	}
	testkit.Equal(t, []string{one[0].Name(), one[1].Name()}, []string{"crud", "part"}, "names")
}

// D11: setting a flag that was not installed had no effect, and setting it twice panicked.
func TestD11_FlowsAreTypedAndSafe(t *testing.T) {
	t.Parallel()
	t.Run("from several goroutines, several times", func(t *testing.T) {
		t.Parallel()
		ctx, flow := pipeline.WithFlow(t.Context())
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				f := pipeline.FlowFrom(ctx)
				f.CancelReconciliation("a")
				f.CancelResource("b")
				f.KeepFinalizer("c")
				f.AllowUpdate()
				f.RequestUpdate()
				f.AllowDeletion()
			})
		}
		all.Wait()
		for i, set := range []bool{
			flow.ReconciliationCanceled(), flow.ResourceCanceled(), flow.FinalizerKept(),
			flow.UpdateAllowed(), flow.UpdateNecessary(), flow.DeletionAllowed(),
		} {
			if !set {
				t.Errorf("flag %d is not set", i)
			}
		}
	})
	t.Run("a CRUD resource that is called by itself can be canceled", func(t *testing.T) {
		t.Parallel()
		var j servertest.Journal
		m := &machine{name: "m", journal: &j, at: map[string]func(context.Context) error{
			"GetCurrentState": func(ctx context.Context) error { pipeline.FlowFrom(ctx).CancelResource("no"); return nil },
		}}
		must(t, m.crud(t).EnsureCreated(t.Context(), &Widget{}))
		j.Expect(t, "m GetCurrentState")
	})
	t.Run("canceling a resource where there is none is an error", func(t *testing.T) {
		t.Parallel()
		set := every(&part{name: "p", journal: &servertest.Journal{}})
		set.Init = func(ctx context.Context, _ *Widget) (context.Context, error) {
			pipeline.FlowFrom(ctx).CancelResource("which one?")
			return ctx, nil
		}
		h := newServer(t).byHand(pipeline.Options[*Widget]{}, set)
		h.Make("w")
		h.passes("w", 1)
		testkit.ErrorIs(t, testkit.Err(h.pass("w")), pipeline.ErrExecutionFailed)
	})
	t.Run("what is allowed reaches the resources after it, and a pass within the pass", func(t *testing.T) {
		t.Parallel()
		ctx, flow := pipeline.WithFlow(t.Context())
		flow.AllowDeletion()
		flow.CancelReconciliation("of another pass")
		asked := 0
		ask := &part{name: "ask", journal: &servertest.Journal{}, created: func(ctx context.Context, _ *Widget) error {
			asked++
			if f := pipeline.FlowFrom(ctx); !f.UpdateAllowed() || !f.DeletionAllowed() || f.UpdateNecessary() {
				t.Error("flow of the resource lacks the permissions, or requests an update")
			}
			return nil
		}}
		allow := &part{name: "allow", journal: &servertest.Journal{}, created: func(ctx context.Context, w *Widget) error {
			pipeline.FlowFrom(ctx).AllowUpdate()
			return pipeline.ProcessUpdate(ctx, w, []pipeline.Resource[*Widget]{ask})
		}}
		must(t, pipeline.ProcessUpdate(ctx, &Widget{}, []pipeline.Resource[*Widget]{allow, ask}))
		testkit.Equal(t, asked, 2, "calls of the resource")
	})
}

// D12: importing the package registered metrics with the process.
func TestD12_MetricsGoWhereTheyAreTold(t *testing.T) {
	t.Parallel()
	rs := []pipeline.Resource[*Widget]{&part{name: "p", journal: &servertest.Journal{}, created: func(context.Context, *Widget) error {
		return errBroken
	}}}
	reg := prometheus.NewPedanticRegistry()
	measured, err := pipeline.WithMetrics(rs, reg, "my-service")
	must(t, err)
	testkit.ErrorIs(t, pipeline.ProcessUpdate(t.Context(), &Widget{}, measured), errBroken)
	want := map[string]float64{"my-service p EnsureCreated": 1}
	testkit.Equal(t, gathered(t, reg, "clusterfx_pipeline_operation_errors_total"), want)
	families, err := prometheus.DefaultGatherer.Gather()
	must(t, err)
	for _, f := range families {
		if strings.Contains(f.GetName(), "pipeline") {
			t.Errorf("metric %s is registered with the process", f.GetName())
		}
	}
	testkit.ErrorIs(t, testkit.Err(pipeline.WithMetrics(rs, nil, "s")), pipeline.ErrInvalidConfig, "without a registerer")
	taken := prometheus.NewPedanticRegistry()
	must(t, taken.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "clusterfx_pipeline_operations_total", Help: "taken"})))
	testkit.Fails(t, testkit.Err(pipeline.WithMetrics(rs, taken, "s")), "WithMetrics succeeds although the registerer refuses")
}

// D14: an overlap of two sets was detected only when an object matched both.
func TestD14_AmbiguousRoutes(t *testing.T) {
	t.Parallel()
	set := func(name string, labels ...string) pipeline.Set[*Widget] {
		s := pipeline.Set[*Widget]{Name: name, Labels: map[string]string{}}
		for i := 0; i < len(labels); i += 2 {
			s.Labels[labels[i]] = labels[i+1]
		}
		s.Resources = []pipeline.Resource[*Widget]{&part{name: "p", journal: &servertest.Journal{}}}
		return s
	}
	t.Run("found when the router is made, with labels", func(t *testing.T) {
		t.Parallel()
		testkit.NoError(t, testkit.Err(pipeline.NewRouter(set("v1", "v", "1"), set("v2", "v", "2"))), "two versions")
		for _, other := range []pipeline.Set[*Widget]{set("again", "v", "1"), set("part", "v", "1", "a", "b"), set("else", "a", "b")} {
			testkit.ErrorIs(t, testkit.Err(pipeline.NewRouter(set("v1", "v", "1"), other)), pipeline.ErrAmbiguousResourceSet, other.Name)
		}
	})
	t.Run("reported on the object, with functions", func(t *testing.T) {
		t.Parallel()
		both := set("v2")
		both.Handles = func(w *Widget) bool { return w.Spec.Size > 1 }
		h := newServer(t).byHand(pipeline.Options[*Widget]{}, set("v1", "v", "1"), both)
		h.Make("w", func(w *Widget) { w.Labels, w.Spec.Size = map[string]string{"v": "1"}, 2 })
		_, err := h.pass("w")
		for _, want := range []error{
			pipeline.ErrAmbiguousResourceSet, pipeline.ErrExecutionFailed, reconcile.TerminalError(nil),
		} {
			testkit.ErrorIs(t, err, want)
		}
		w := h.expect("w", metav1.ConditionFalse, pipeline.ReasonAmbiguousRoute, "Stalled")
		if m := meta.FindStatusCondition(w.Status.Conditions, "Ready").Message; !strings.HasSuffix(m, "v1, v2") {
			t.Errorf("got message %q", m)
		}
	})
}

// D15: all calls of a wrapper shared one backoff, which was not safe for concurrent use and ignored the context.
func TestD15_EachCallHasItsBackoff(t *testing.T) {
	t.Parallel()
	failing := &part{name: "p", journal: &servertest.Journal{}, created: func(context.Context, *Widget) error { return errBroken }}
	resources := func(steps int, d time.Duration) []pipeline.Resource[*Widget] {
		return pipeline.WithRetry([]pipeline.Resource[*Widget]{failing}, wait.Backoff{Steps: steps, Duration: d, Factor: 2})
	}
	synctest.Test(t, func(t *testing.T) {
		rs, begin := resources(4, time.Second), time.Now()
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				testkit.ErrorIs(t, pipeline.ProcessUpdate(t.Context(), &Widget{}, rs), errBroken)
			})
		}
		calls.Wait()
		testkit.Equal(t, failing.journal.Count("create p"), 40, "tries")
		testkit.Equal(t, time.Since(begin), 7*time.Second, "took")
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		begin := time.Now()
		err := pipeline.ProcessUpdate(ctx, &Widget{}, resources(100, time.Minute))
		if !errors.Is(err, errBroken) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 90*time.Second {
			t.Errorf("got error %v after %s, want DeadlineExceeded after 90s", err, time.Since(begin))
		}
	})
}
