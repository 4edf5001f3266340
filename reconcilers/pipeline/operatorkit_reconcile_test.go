// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// These flaws concern the reconciliation of objects; operatorkit_resource_test.go tests the other flaws.

// D1: errors were logged and dropped, so that the retry waited for the next resync.
func TestD1_ErrorsAreTriedAgainWithBackoff(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Make("w")
	s.byHand(pipeline.Options[*Widget]{}, every(&part{name: "p", journal: &servertest.Journal{}})).passes("w", 1)

	tries := make(chan time.Time, 7)
	set := every(&part{name: "p", journal: &servertest.Journal{}, created: func(context.Context, *Widget) error {
		tries <- time.Now()
		if len(tries) < cap(tries) {
			return errBroken
		}
		return nil
	}})
	mgr := s.Manager()
	// Without conditions, reports do not change the object, so that no event triggers a retry.
	must(t, pipeline.AddTo(mgr, router(t, set), pipeline.Options[*Widget]{Name: name}))
	s.Run(mgr)
	s.Eventually(func() error {
		if len(tries) < cap(tries) {
			return fmt.Errorf("got %d tries", len(tries))
		}
		return nil
	})
	last := <-tries
	for nominal := 5 * time.Millisecond; len(tries) > 0; nominal *= 2 {
		next := <-tries
		if waited := next.Sub(last); waited < nominal {
			t.Errorf("retry came %s after the previous try, want at least %s", waited, nominal)
		}
		last = next
	}
}

// D3: objects deleted while the operator was down were never cleaned up, or were created again.
func TestD3_DeletionsWhileDownAreSeen(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	s := newServer(t)
	set := every(&part{name: "p", journal: &j})
	stop := s.start(pipeline.Options[*Widget]{}, set)
	s.Make("w")
	s.expectSoon("w", metav1.ConditionTrue, pipeline.ReasonReady)
	stop()
	s.Remove("w")
	created := j.Count("create p")

	s.start(pipeline.Options[*Widget]{Resync: 50 * time.Millisecond}, set)
	s.ExpectGone("w")
	s.Make("after") // its passes show that the resyncs continue
	s.Eventually(func() error {
		if n := j.Count("create p") - created; n < 5 {
			return fmt.Errorf("got %d passes", n)
		}
		return nil
	})
	entries := j.All()
	if i := slices.Index(entries, "delete p"); i != created || j.Count("delete p") != 1 {
		t.Errorf("want one deletion at index %d, got %q", created, entries)
	}
}

// D4: one deletion was executed twice.
func TestD4_OneSuccessfulDeletion(t *testing.T) {
	t.Parallel()
	var j servertest.Journal
	s := newServer(t)
	view := &oldView{WithWatch: s.WithWatch}
	h := hand{s, newReconciler(t, view, pipeline.Options[*Widget]{}, every(&part{name: "p", journal: &j}))}
	h.Make("w", func(w *Widget) { controllerutil.AddFinalizer(w, foreign) })
	h.passes("w", 2)
	h.Remove("w")
	view.widget = h.Read("w")
	h.Change("w", func(w *Widget) { w.Labels = map[string]string{"a": "b"} })
	h.passes("w", 3) // each deletion succeeds, but cannot remove the finalizer
	view.widget = nil
	h.passes("w", 1) // removes the finalizer
	view.widget = h.Read("w")
	h.passes("w", 2) // sees the remaining object
	view.widget = nil
	h.Change("w", func(w *Widget) { w.Finalizers = nil })
	h.ExpectGone("w")
	h.passes("w", 2)
	j.Expect(t, "create p", "delete p")

	t.Run("the next object of that name is another one", func(t *testing.T) {
		h.Make("w")
		h.passes("w", 2)
		h.Remove("w")
		h.passes("w", 1)
		h.ExpectGone("w")
		j.Expect(t, "create p", "delete p", "create p", "delete p")
	})
}

// D5: the finalizer was removed while the resources still existed.
func TestD5_OnlySuccessRemovesTheFinalizer(t *testing.T) {
	t.Parallel()
	cancel := func(f func(*pipeline.Flow)) func(context.Context, *Widget) error {
		return func(ctx context.Context, _ *Widget) error {
			f(pipeline.FlowFrom(ctx))
			return nil
		}
	}
	backoff := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}
	for sentence, c := range map[string]struct {
		deleted func(context.Context, *Widget) error
		reason  string
		fails   bool
		after   []time.Duration // Default: the next resync, after Options.Resync plus up to a tenth.
	}{
		"an error": {deleted: func(context.Context, *Widget) error { return errBroken }, reason: pipeline.ReasonFailed, fails: true},
		"a canceled reconciliation": {
			deleted: cancel(func(f *pipeline.Flow) { f.CancelReconciliation("not yet") }), reason: pipeline.ReasonDeleting,
		},
		"a kept finalizer": {
			deleted: cancel(func(f *pipeline.Flow) { f.KeepFinalizer("not yet") }), reason: pipeline.ReasonDeleting, after: backoff,
		},
		"a kept finalizer of a canceled resource": {
			deleted: cancel(func(f *pipeline.Flow) { f.CancelResource("no"); f.KeepFinalizer("not yet") }),
			reason:  pipeline.ReasonDeleting, after: backoff,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			p := &part{name: "p", journal: &servertest.Journal{}, deleted: c.deleted}
			h := newServer(t).byHand(pipeline.Options[*Widget]{Resync: time.Hour}, every(p))
			h.Make("w")
			h.passes("w", 2)
			h.Remove("w")
			for i := range 3 {
				result, err := h.pass("w")
				least, most := time.Hour, time.Hour+6*time.Minute
				if c.after != nil {
					least, most = c.after[i], c.after[i]
				}
				isOff := result.RequeueAfter < least || result.RequeueAfter > most
				if (err != nil) != c.fails || err == nil && isOff {
					t.Errorf("requeued after %s, error: %v", result.RequeueAfter, err)
				}
				h.expect("w", metav1.ConditionFalse, c.reason, "Reconciling")
			}
			p.deleted = nil
			h.passes("w", 1)
			h.ExpectGone("w")
		})
	}
	t.Run("no set handles the object", func(t *testing.T) {
		t.Parallel()
		var j servertest.Journal
		set := every(&part{name: "p", journal: &j})
		set.Handles = func(w *Widget) bool { return w.Spec.Size < 2 }
		h := newServer(t).byHand(pipeline.Options[*Widget]{}, set)
		h.Make("w")
		h.passes("w", 2)
		h.Change("w", func(w *Widget) { w.Spec.Size = 2 })
		h.Remove("w")
		if _, err := h.pass("w"); !errors.Is(err, pipeline.ErrNoResourceSet) || !errors.Is(err, reconcile.TerminalError(nil)) {
			t.Errorf("got error %v, want a terminal ErrNoResourceSet", err)
		}
		h.expect("w", metav1.ConditionFalse, pipeline.ReasonNoResourceSet, "Stalled")
		j.Expect(t, "create p")
		h.Change("w", func(w *Widget) { w.Spec.Size = 1 })
		h.passes("w", 1)
		h.ExpectGone("w")
		j.Expect(t, "create p", "delete p")
	})
	t.Run("an object that no set has ever handled is left alone", func(t *testing.T) {
		t.Parallel()
		h := newServer(t).byHand(pipeline.Options[*Widget]{}, pipeline.Set[*Widget]{
			Name: "other", Labels: map[string]string{"a": "b"},
			Resources: []pipeline.Resource[*Widget]{&part{name: "p", journal: &servertest.Journal{}}},
		})
		version := h.Make("w").ResourceVersion
		h.passes("w", 2)
		testkit.Equal(t, h.Read("w").ResourceVersion, version, "object was changed")
	})
	t.Run("a canceled resource counts as deleted", func(t *testing.T) {
		t.Parallel()
		h := newServer(t).byHand(pipeline.Options[*Widget]{}, every(&part{
			name: "p", journal: &servertest.Journal{}, deleted: cancel(func(f *pipeline.Flow) { f.CancelResource("the tenant is gone") }),
		}))
		h.Make("w")
		h.passes("w", 2)
		h.Remove("w")
		h.passes("w", 1)
		h.ExpectGone("w")
	})
}

// D7: the process exited after eight errors of the informer, counted over its whole life.
func TestD7_OutagesEndNothing(t *testing.T) {
	t.Parallel()
	config := fleettest.Cluster(t, "hub").Config()
	proxy := fleettest.Proxy(t, config.Host)
	config.Host = "https://" + proxy.Addr()
	s := serverIn(t, config)
	var j servertest.Journal
	var broken atomic.Bool
	s.start(pipeline.Options[*Widget]{Resync: 20 * time.Millisecond}, every(&part{
		name: "p", journal: &j, created: func(context.Context, *Widget) error {
			if broken.Load() {
				return errBroken
			}
			return nil
		},
	}))
	s.Make("w")
	s.expectSoon("w", metav1.ConditionTrue, pipeline.ReasonReady)
	must(t, proxy.Set(fault.Refuse()))
	broken.Store(true) // From here on every pass must write, and every write fails.
	before := j.Count("create p")
	s.Eventually(func() error {
		if n := j.Count("create p") - before; n < 10 {
			return fmt.Errorf("got %d passes", n)
		}
		return nil
	})
	must(t, proxy.Set(fault.Pass()))
	s.expectSoon("w", metav1.ConditionFalse, pipeline.ReasonFailed, "Reconciling")
}

// D8: one slow resource delayed all objects.
func TestD8_ObjectsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.start(pipeline.Options[*Widget]{ControllerOptions: pipeline.ControllerOptions{Concurrency: 3, Timeout: time.Second}}, every(&part{
		name: "p", journal: &servertest.Journal{}, created: func(ctx context.Context, w *Widget) error {
			if w.Name == "fast" {
				return nil
			}
			<-ctx.Done() // the first two objects repeatedly occupy a worker each until their timeout
			return ctx.Err()
		},
	}))
	s.Make("slow-1")
	s.Make("slow-2")
	for _, slow := range []string{"slow-1", "slow-2"} {
		s.expectSoon(slow, metav1.ConditionUnknown, pipeline.ReasonPending, "Reconciling")
	}
	s.Make("fast")
	s.expectSoon("fast", metav1.ConditionTrue, pipeline.ReasonReady)
	s.expectSoon("slow-1", metav1.ConditionFalse, pipeline.ReasonFailed, "Reconciling")
}

// D9: when the context ended, closed channels were read as events without an object.
func TestD9_TheEndMakesNoEvents(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	check := func(_ context.Context, w *Widget) error {
		if w == nil || w.UID == "" {
			t.Errorf("unexpected pass for %+v", w)
		}
		return nil
	}
	set := every(&part{name: "p", journal: &servertest.Journal{}, created: check, deleted: check})
	stop := s.start(pipeline.Options[*Widget]{}, set)
	for i := range 30 {
		s.Make(fmt.Sprintf("w-%d", i))
		if i == 15 {
			stop()
		}
	}
	s.start(pipeline.Options[*Widget]{}, set)
	for i := range 30 {
		s.expectSoon(fmt.Sprintf("w-%d", i), metav1.ConditionTrue, pipeline.ReasonReady)
	}
}

// D13: an error of InitCtx was logged with the missing context of InitCtx.
func TestD13_ErrorsOfInit(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		init func(context.Context, *Widget) (context.Context, error)
		want error
	}{
		"an error without a context": {
			init: func(context.Context, *Widget) (context.Context, error) { return nil, errBroken }, want: errBroken,
		},
		"no context": {
			init: func(context.Context, *Widget) (context.Context, error) { return nil, nil }, want: pipeline.ErrExecutionFailed,
		},
		"another context": {
			init: func(context.Context, *Widget) (context.Context, error) { return t.Context(), nil }, want: pipeline.ErrExecutionFailed,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			var j servertest.Journal
			set := every(&part{name: "p", journal: &j})
			set.Init = c.init
			h := newServer(t).byHand(pipeline.Options[*Widget]{}, set)
			h.Make("w")
			h.passes("w", 1)
			testkit.ErrorIs(t, testkit.Err(h.pass("w")), c.want)
			j.Expect(t)
			h.expect("w", metav1.ConditionFalse, pipeline.ReasonFailed, "Reconciling")
		})
	}
}
