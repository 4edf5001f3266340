// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

func TestReconciler_Life(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	first, second := &part{name: "first", journal: &j}, &part{name: "second", journal: &j}
	h := newServer(t).byHand(pipeline.Options[*Widget]{}, every(first, second))
	first.created = func(_ context.Context, w *Widget) error {
		if !slices.Contains(h.Read(w.Name).Finalizers, finalizer) {
			t.Error("first EnsureCreated runs before the finalizer is set")
		}
		return nil
	}
	h.Make("w")

	h.passes("w", 1)
	j.Expect(t)
	h.expect("w", metav1.ConditionUnknown, pipeline.ReasonPending, "Reconciling")

	h.passes("w", 1)
	j.Expect(t, "create first", "create second")
	version := h.expect("w", metav1.ConditionTrue, pipeline.ReasonReady).ResourceVersion

	h.passes("w", 1)
	testkit.Equal(t, h.Read("w").ResourceVersion, version, "version after a pass without changes")

	h.Change("w", func(w *Widget) { w.Spec.Size = 2 })
	h.passes("w", 1)
	h.expect("w", metav1.ConditionTrue, pipeline.ReasonReady)

	h.Remove("w")
	h.passes("w", 1)
	h.ExpectGone("w")
	j.Expect(t, "create first", "create second", "create first", "create second",
		"create first", "create second", "delete first", "delete second")
}

// An unchanged object is reconciled again after Resync plus up to a tenth. The default of Resync is 5 minutes.
func TestReconciler_Resync(t *testing.T) {
	t.Parallel()
	for resync, least := range map[time.Duration]time.Duration{time.Hour: time.Hour, 0: 5 * time.Minute} {
		h := newServer(t).byHand(pipeline.Options[*Widget]{Resync: resync}, every(&part{name: "p", journal: &servertest.Journal{}}))
		h.Make("w")
		h.passes("w", 1)
		for range 20 {
			result, err := h.pass("w")
			must(t, err)
			if most := least + least/10; result.RequeueAfter < least || result.RequeueAfter > most {
				t.Fatalf("Resync %s: got RequeueAfter %s, want %s to %s", resync, result.RequeueAfter, least, most)
			}
		}
	}
}

func TestReconciler_ReverseOnDelete(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	h := newServer(t).byHand(pipeline.Options[*Widget]{ReverseOnDelete: true},
		every(&part{name: "a", journal: &j}, &part{name: "b", journal: &j}))
	h.Make("w")
	h.passes("w", 2)
	h.Remove("w")
	h.passes("w", 1)
	j.Expect(t, "create a", "create b", "delete b", "delete a")
}

func TestReconciler_Pause(t *testing.T) {
	t.Parallel()
	for _, annotation := range []string{
		pipeline.PausedAnnotation, "cluster.x-k8s.io/paused", "operatorkit.giantswarm.io/paused", "example.com/stop",
	} {
		t.Run(annotation, func(t *testing.T) {
			t.Parallel()
			var j servertest.Journal
			h := newServer(t).byHand(pipeline.Options[*Widget]{PauseAnnotations: []string{"example.com/stop"}},
				every(&part{name: "p", journal: &j}))
			h.Make("w", func(w *Widget) { w.Annotations = map[string]string{annotation: "true"} })
			h.passes("w", 2)
			if w := h.expect("w", metav1.ConditionUnknown, pipeline.ReasonPaused); len(w.Finalizers) > 0 {
				t.Errorf("paused object has the finalizers %v", w.Finalizers)
			}
			h.Change("w", func(w *Widget) { w.Annotations[annotation] = "false" })
			h.passes("w", 2)
			h.Change("w", func(w *Widget) { w.Annotations[annotation] = "true" })
			h.Remove("w")
			h.passes("w", 2)
			j.Expect(t, "create p")
			h.Change("w", func(w *Widget) { w.Annotations = nil })
			h.passes("w", 1)
			h.ExpectGone("w")
		})
	}
}

func TestReconciler_ForeignFinalizer(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	h := newServer(t).byHand(pipeline.Options[*Widget]{}, every(&part{name: "p", journal: &j}))
	h.Make("w", func(w *Widget) { controllerutil.AddFinalizer(w, foreign) })

	t.Run("an object that is deleted before we knew it is none of ours", func(t *testing.T) {
		h.Make("early", func(w *Widget) { controllerutil.AddFinalizer(w, foreign) })
		h.Remove("early")
		h.passes("early", 2)
		j.Expect(t)
	})
	h.passes("w", 2)
	h.Remove("w")
	h.passes("w", 3)
	j.Expect(t, "create p", "delete p")
	testkit.Equal(t, h.Read("w").Finalizers, []string{foreign}, "finalizers")
}

// A cache may show an old version of an object. A pass with it must not undo later changes of others.
func TestReconciler_OldView(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	view := &oldView{WithWatch: s.WithWatch}
	h := hand{s, newReconciler(t, view, pipeline.Options[*Widget]{}, every(&part{name: "p", journal: &servertest.Journal{}}))}
	view.widget = h.Make("w")
	h.Change("w", func(w *Widget) { controllerutil.AddFinalizer(w, foreign) })
	result, err := h.pass("w")
	must(t, err)
	if f := h.Read("w").Finalizers; !slices.Equal(f, []string{foreign}) || result.RequeueAfter > time.Second {
		t.Fatalf("got finalizers %v, requeued after %s", f, result.RequeueAfter)
	}
	view.widget = nil
	h.passes("w", 2)
	h.expect("w", metav1.ConditionTrue, pipeline.ReasonReady)

	h.Remove("w")
	view.widget = h.Read("w")
	h.Change("w", func(w *Widget) { w.Labels = map[string]string{"a": "b"} })
	h.passes("w", 1) // The deletion succeeds, but the object has changed.
	if f := h.Read("w").Finalizers; len(f) != 2 {
		t.Fatalf("got finalizers %v after a write with an old view", f)
	}
	view.widget = nil
	h.passes("w", 1)
	if f := h.Read("w").Finalizers; !slices.Equal(f, []string{foreign}) {
		t.Fatalf("got finalizers %v", f)
	}
}

// oldView is a client that shows an old version of a Widget, if it has one.
type oldView struct {
	client.WithWatch
	widget *Widget
}

func (v *oldView) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	if shown, ok := obj.(*Widget); ok && v.widget != nil {
		*shown = *v.widget.DeepCopyObject().(*Widget)
		return nil
	}
	return v.WithWatch.Get(ctx, key, obj, o...)
}

func TestReconciler_Conditions(t *testing.T) {
	t.Parallel()
	told := &pipeline.ReasonError{Reason: "QuotaExceeded", Message: "The quota of 3 is used up", Err: errBroken}
	for sentence, c := range map[string]struct {
		created func(context.Context, *Widget) error
		reason  string
		message string
		also    string
		err     error
	}{
		"an error": {
			created: func(context.Context, *Widget) error { return errBroken },
			reason:  pipeline.ReasonFailed, message: "resource p: broken", also: "Reconciling", err: errBroken,
		},
		"a terminal error": {
			created: func(context.Context, *Widget) error { return reconcile.TerminalError(errBroken) },
			reason:  pipeline.ReasonFailed, message: "resource p: terminal error: broken", also: "Stalled", err: errBroken,
		},
		"an error that is a book": {
			created: func(context.Context, *Widget) error {
				return &pipeline.ReasonError{Message: strings.Repeat("é", 20_000)}
			},
			reason: pipeline.ReasonFailed, message: strings.Repeat("é", 510) + " ...", also: "Reconciling", err: errBroken,
		},
		"an error with words": {
			created: func(context.Context, *Widget) error { return told },
			reason:  "QuotaExceeded", message: "The quota of 3 is used up", also: "Reconciling", err: errBroken,
		},
		"an error with a reason that is none": {
			created: func(context.Context, *Widget) error { return &pipeline.ReasonError{Reason: "no reason", Message: "m"} },
			reason:  pipeline.ReasonFailed, message: "m", also: "Reconciling", err: &pipeline.ReasonError{},
		},
		"a canceled resource": {
			created: func(ctx context.Context, _ *Widget) error {
				pipeline.FlowFrom(ctx).CancelResource("no network yet")
				return nil
			},
			reason: pipeline.ReasonCanceled, message: "resource p: no network yet", also: "Reconciling",
		},
		"a canceled reconciliation": {
			created: func(ctx context.Context, _ *Widget) error {
				pipeline.FlowFrom(ctx).CancelReconciliation("no network yet")
				return nil
			},
			reason: pipeline.ReasonCanceled, message: "resource p: no network yet", also: "Reconciling",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			p := &part{name: "p", journal: &servertest.Journal{}, created: c.created}
			h := newServer(t).byHand(pipeline.Options[*Widget]{}, every(p))
			h.Make("w")
			h.passes("w", 1)
			_, err := h.pass("w")
			if (err != nil) != (c.err != nil) {
				t.Errorf("queue got error %v", err)
			}
			w := h.expect("w", metav1.ConditionFalse, c.reason, c.also)
			testkit.Equal(t, meta.FindStatusCondition(w.Status.Conditions, "Ready").Message, c.message, "message")
			p.created = nil
			h.passes("w", 1)
			h.expect("w", metav1.ConditionTrue, pipeline.ReasonReady)
		})
	}
}

func TestReconciler_InitCancels(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	set := every(&part{name: "p", journal: &j})
	set.Init = func(ctx context.Context, _ *Widget) (context.Context, error) {
		pipeline.FlowFrom(ctx).CancelReconciliation("the tenant is away")
		return ctx, nil
	}
	h := newServer(t).byHand(pipeline.Options[*Widget]{}, set)
	h.Make("w")
	h.passes("w", 2)
	for _, reason := range []string{pipeline.ReasonCanceled, pipeline.ReasonDeleting} {
		w := h.expect("w", metav1.ConditionFalse, reason, "Reconciling")
		testkit.Equal(t, meta.FindStatusCondition(w.Status.Conditions, "Ready").Message, "Init: the tenant is away", "message")
		if w.DeletionTimestamp == nil {
			h.Remove("w")
			h.passes("w", 1)
		}
	}
	j.Expect(t)
}

func TestReconciler_ConditionPrefix(t *testing.T) {
	t.Parallel()
	h := newServer(t).byHand(pipeline.Options[*Widget]{ConditionPrefix: "DNS"}, every(&part{name: "p", journal: &servertest.Journal{}}))
	w := h.Make("w")
	w.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Mine", LastTransitionTime: metav1.Now(),
	}}
	must(t, h.Status().Update(t.Context(), w))
	h.passes("w", 2)
	has := h.Read("w").Status.Conditions
	if ours, theirs := meta.FindStatusCondition(has, "DNSReady"), meta.FindStatusCondition(has, "Ready"); ours == nil ||
		ours.Reason != pipeline.ReasonReady || theirs == nil || theirs.Reason != "Mine" || len(has) != 2 {
		t.Errorf("got conditions %+v", has)
	}
}

// ending is a context that ends with an error when it is told to.
type ending struct {
	context.Context //nolint:containedctx // It is one.
	done            chan struct{}
	err             error
}

func (c *ending) Done() <-chan struct{} { return c.done }

func (c *ending) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// A pass that times out has a few seconds to report it; a pass that is shut down leaves the report to the next process.
func TestReconciler_EndOfContext(t *testing.T) {
	t.Parallel()
	var of *ending
	p := &part{name: "p", journal: &servertest.Journal{}, created: func(ctx context.Context, _ *Widget) error {
		close(of.done)
		<-ctx.Done()
		return ctx.Err()
	}}
	h := newServer(t).byHand(pipeline.Options[*Widget]{}, every(p))
	h.Make("w")
	h.passes("w", 1)
	pass := func(end error) {
		of = &ending{t.Context(), make(chan struct{}), end}
		testkit.Fails(t, testkit.Err(h.Reconcile(of, reconcile.Request{NamespacedName: h.Key("w")})), end)
	}
	pass(context.Canceled)
	h.expect("w", metav1.ConditionUnknown, pipeline.ReasonPending, "Reconciling")
	pass(context.DeadlineExceeded)
	h.expect("w", metav1.ConditionFalse, pipeline.ReasonFailed, "Reconciling")
}

// An object that takes the name of another object during a pass does not get its conditions.
func TestReconciler_AnotherOfItsName(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := &part{name: "p", journal: &servertest.Journal{}}
	h := s.byHand(pipeline.Options[*Widget]{}, every(p))
	old := s.Make("w")
	h.passes("w", 1)
	p.created = func(context.Context, *Widget) error { // another object takes the name during the pass
		s.Change("w", func(w *Widget) { w.Finalizers = nil })
		s.Remove("w")
		s.Make("w")
		return nil
	}
	if result, err := h.pass("w"); err != nil || result.RequeueAfter > time.Second {
		t.Errorf("requeued after %s, error: %v", result.RequeueAfter, err)
	}
	if w := s.Read("w"); w.UID == old.UID || len(w.Status.Conditions) > 0 {
		t.Errorf("new object has conditions of the old object: %+v", w.Status.Conditions)
	}
}

// A conflict is not reported, because it ends before a reader of the status sees it.
func TestReconciler_ConflictOfAResource(t *testing.T) {
	t.Parallel()
	p := &part{name: "p", journal: &servertest.Journal{}, created: func(context.Context, *Widget) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "others"}, "o", errBroken)
	}}
	h := newServer(t).byHand(pipeline.Options[*Widget]{}, every(p))
	h.Make("w")
	h.passes("w", 1)
	if _, err := h.pass("w"); !apierrors.IsConflict(err) {
		t.Errorf("queue got error %v, want a conflict", err)
	}
	h.expect("w", metav1.ConditionUnknown, pipeline.ReasonPending, "Reconciling")
}

// A terminal error that could not be reported is retried, or it would stay unknown.
func TestReconciler_UnreportedTerminalError(t *testing.T) {
	t.Parallel()
	p := &part{name: "p", journal: &servertest.Journal{}}
	h := newServer(t).byHand(pipeline.Options[*Widget]{}, every(p))
	h.Make("w")
	h.passes("w", 1)
	p.created = func(context.Context, *Widget) error {
		h.Change("w", func(w *Widget) { w.Labels = map[string]string{"a": "b"} })
		return reconcile.TerminalError(errBroken)
	}
	if _, err := h.pass("w"); err == nil || errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("queue got error %v, want a retryable error", err)
	}
	h.expect("w", metav1.ConditionUnknown, pipeline.ReasonPending, "Reconciling")
	testkit.ErrorIs(t, testkit.Err(h.pass("w")), reconcile.TerminalError(nil), "queue")
	h.expect("w", metav1.ConditionFalse, pipeline.ReasonFailed, "Stalled")
}
