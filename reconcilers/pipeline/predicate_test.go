// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// The report of a pass does not trigger another pass, with AddTo and with a custom controller, even if the cache lags:
// after the pass it still has the previous version of the object.
func TestPredicate_OnePassIsEnough(t *testing.T) {
	t.Parallel()
	for what, add := range map[string]func(ctrl.Manager, pipeline.Set[*Widget]) error{
		"AddTo": func(mgr ctrl.Manager, set pipeline.Set[*Widget]) error {
			return pipeline.AddTo(mgr, router(t, set), named(pipeline.Options[*Widget]{ControllerOptions: pipeline.ControllerOptions{Concurrency: 1}}))
		},
		"NewReconciler": func(mgr ctrl.Manager, set pipeline.Set[*Widget]) error {
			r, err := pipeline.NewReconciler(mgr.GetClient(), router(t, set), named(pipeline.Options[*Widget]{}))
			must(t, err)
			skip := true
			return ctrl.NewControllerManagedBy(mgr).Named(name).
				WithOptions(controller.Options{SkipNameValidation: &skip}).
				For(&Widget{}, builder.WithPredicates(r.Predicate())).Complete(r)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			mgr := s.With(late).Manager()
			var passes servertest.Journal
			p := &part{name: "p", journal: &servertest.Journal{}, created: func(_ context.Context, w *Widget) error {
				passes.Note("%s", w.Name)
				return nil
			}}
			must(t, add(mgr, every(p)))
			s.Run(mgr)
			s.Make("w")
			s.expectSoon("w", metav1.ConditionTrue, pipeline.ReasonReady)
			s.Make("next") // There is one worker: a pass that the report of w triggers runs before this.
			s.expectSoon("next", metav1.ConditionTrue, pipeline.ReasonReady)
			passes.Expect(t, "w", "next")
			s.Change("w", func(w *Widget) { w.Labels = map[string]string{"a": "b"} })
			s.Eventually(func() error {
				if passes.Count("w") < 2 {
					return errBroken
				}
				return nil
			})
		})
	}
}

func TestPredicate_DropsWhatThePipelineReports(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r, err := pipeline.NewReconciler(s, router(t, every(&part{name: "p", journal: &servertest.Journal{}})), named(pipeline.Options[*Widget]{}))
	must(t, err)
	ready := metav1.Condition{Type: "Ready", Status: "True", Reason: "Ready"}
	for what, c := range map[string]struct {
		change func(*Widget)
		passes bool
	}{
		"a resync":              {change: func(w *Widget) { w.ResourceVersion = "1" }, passes: true},
		"our first condition":   {change: func(w *Widget) { meta.SetStatusCondition(&w.Status.Conditions, ready) }},
		"who has written it":    {change: func(w *Widget) { w.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}} }},
		"another one":           {change: func(w *Widget) { w.Status.Conditions = []metav1.Condition{{Type: "DNSReady"}} }, passes: true},
		"the spec":              {change: func(w *Widget) { w.Generation = 2 }, passes: true},
		"a label":               {change: func(w *Widget) { w.Labels = map[string]string{"a": "b"} }, passes: true},
		"a finalizer":           {change: func(w *Widget) { w.Finalizers = []string{foreign} }, passes: true},
		"a deletion":            {change: func(w *Widget) { now := metav1.Now(); w.DeletionTimestamp = &now }, passes: true},
		"the spec, without one": {change: func(w *Widget) { w.Spec.Size = 3 }, passes: true},
	} {
		was := &Widget{ObjectMeta: metav1.ObjectMeta{Name: "w", ResourceVersion: "1", Generation: 1}}
		is := was.DeepCopyObject().(*Widget)
		is.ResourceVersion = "2"
		c.change(is)
		testkit.Equal(t, r.Predicate().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}), c.passes, what, "passes")
	}
}
