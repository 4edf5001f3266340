// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// TestReconciler_Histories drives random lives of an object on a real API server: the object is changed, paused,
// unrouted, deleted and created again, while its resources cancel, fail and panic, and the hub is restarted.
func TestReconciler_Histories(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./reconcilers/pipeline TestProcess_IsItsModel")
	s := newSite(t)
	lives := 0
	rapid.Check(t, func(rt *rapid.T) {
		lives++
		h := &history{site: s, rt: rt, name: fmt.Sprintf("w-%d", lives), deleted: map[types.UID]bool{}}
		h.restart()
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			h.step()
			h.checkGone()
		}
		h.settle()
	})
}

// history is the life of the objects of one name.
type history struct {
	*site
	rt         *rapid.T
	name       string
	reconciler reconcile.Reconciler
	acts       [2]act             // of the two resources
	reached    int                // number of resources that succeeded in the pass
	known      *Widget            // state after the last step
	deleted    map[types.UID]bool // successful deletions since the restart
}

// restart creates a new reconciler, which has no memory.
func (h *history) restart() {
	set := every(&stage{h, 0}, &stage{h, 1})
	set.Handles = func(w *Widget) bool { return w.Spec.Size < 10 }
	h.reconciler = newReconciler(h.T, h.site, pipeline.Options[*Widget]{}, set)
	clear(h.deleted)
}

// stage is one of the two resources.
type stage struct {
	*history
	index int
}

func (s *stage) Name() string { return fmt.Sprint("step-", s.index) }

func (s *stage) EnsureCreated(ctx context.Context, w *Widget) error {
	live := &Widget{}
	if err := s.Get(ctx, s.Key(s.name), live); err != nil || !slices.Contains(live.Finalizers, finalizer) {
		s.rt.Errorf("EnsureCreated of an object without the finalizer: got finalizers %v, error %v", live.Finalizers, err)
	}
	return s.act(ctx, w, false)
}

func (s *stage) EnsureDeleted(ctx context.Context, w *Widget) error {
	return s.act(ctx, w, true)
}

// act performs the drawn act, and checks that the pass may call it.
func (s *stage) act(ctx context.Context, w *Widget, deleting bool) error {
	if w.Annotations[pipeline.PausedAnnotation] == "true" || w.Spec.Size >= 10 || (w.DeletionTimestamp != nil) != deleting {
		s.rt.Errorf("unexpected pass for %+v", w)
	}
	if s.deleted[w.UID] {
		s.rt.Error("pass after a successful deletion")
	}
	one := plan{name: s.Name(), acts: map[string][]act{"": {s.acts[s.index]}}}
	err := one.perform(ctx, "")
	if err == nil {
		s.reached++
	}
	return err
}

// step performs one random event.
func (h *history) step() {
	switch rapid.IntRange(0, 12).Draw(h.rt, "event") {
	case 0, 1:
		w := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.name}}
		_ = h.Create(h.T.Context(), w) // may exist already
	case 2:
		_ = client.IgnoreNotFound(h.Delete(h.T.Context(), &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.name}}))
	case 3:
		h.alter(func(w *Widget) { w.Spec.Size = rapid.SampledFrom([]int{1, 2, 10}).Draw(h.rt, "size") })
	case 4:
		paused := rapid.SampledFrom([]string{"true", "false"}).Draw(h.rt, "paused")
		h.alter(func(w *Widget) { w.Annotations = map[string]string{pipeline.PausedAnnotation: paused} })
	case 5:
		h.alter(func(w *Widget) {
			if w.DeletionTimestamp == nil {
				controllerutil.AddFinalizer(w, foreign)
			}
		})
	case 6:
		h.alter(func(w *Widget) { controllerutil.RemoveFinalizer(w, foreign) })
	case 7:
		h.restart()
	case 8:
		h.acts[rapid.IntRange(0, 1).Draw(h.rt, "which")] = rapid.SampledFrom([]act{
			actNothing, actNothing, actCancelResource, actCancelReconciliation, actKeepFinalizer, actFail, actPanic,
		}).Draw(h.rt, "act")
	default:
		h.pass()
	}
}

// alter changes the object, if it exists.
func (h *history) alter(change func(*Widget)) {
	w := &Widget{}
	if err := h.Get(h.T.Context(), h.Key(h.name), w); err != nil {
		return
	}
	change(w)
	if err := h.Update(h.T.Context(), w); client.IgnoreNotFound(err) != nil {
		h.rt.Fatal(err)
	}
}

// pass runs a pass, which may panic, and records a successful deletion.
func (h *history) pass() {
	before := h.live()
	h.reached = 0
	returned := false
	defer func() {
		if value := recover(); value != nil {
			if _, ok := value.(drawnError); !ok {
				panic(value)
			}
		}
		deleting := before != nil && before.DeletionTimestamp != nil
		h.known = before
		if returned && deleting && h.reached == 2 && !slices.Contains(h.acts[:], actCancelReconciliation) &&
			!slices.Contains(h.acts[:], actKeepFinalizer) {
			h.deleted[before.UID] = true
		}
	}()
	_, err := h.reconciler.Reconcile(h.T.Context(), ctrl.Request{NamespacedName: h.Key(h.name)})
	returned = err == nil
}

func (h *history) live() *Widget {
	w := &Widget{}
	if err := h.Get(h.T.Context(), h.Key(h.name), w); err != nil {
		return nil
	}
	return w
}

// checkGone checks that an object with the finalizer is removed, or loses the finalizer, only after a successful
// deletion.
func (h *history) checkGone() {
	now := h.live()
	was := h.known
	h.known = now
	if was == nil || !slices.Contains(was.Finalizers, finalizer) || h.deleted[was.UID] {
		return
	}
	if now == nil || now.UID != was.UID || !slices.Contains(now.Finalizers, finalizer) {
		h.rt.Errorf("finalizer was removed without a successful deletion: before %+v, now %+v", was, now)
	}
}

// settle removes all faults, and checks that the state matches the last desired state.
func (h *history) settle() {
	h.acts = [2]act{}
	h.alter(func(w *Widget) { w.Spec.Size, w.Annotations = 1, nil; controllerutil.RemoveFinalizer(w, foreign) })
	for range 3 {
		h.pass()
	}
	w := h.live()
	switch {
	case w == nil:
	case w.DeletionTimestamp != nil:
		h.rt.Errorf("deletion does not finish: %+v", w)
	default:
		if err := check(w, metav1.ConditionTrue, pipeline.ReasonReady); err != nil {
			h.rt.Error(err)
		}
	}
}
