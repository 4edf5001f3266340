// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// scripted is a provider made of two functions. It records its calls.
type scripted struct {
	journal              *servertest.Journal
	name                 string
	reconcile, terminate func(context.Context, *controller) (*reconcile.Result, error)
}

func (s scripted) factory(conditionType string) factory {
	s.name = conditionType
	return factory{
		Name: conditionType, ConditionType: conditionType,
		New: func(_ context.Context, c *controller) (guard.Provider, error) { return &called{s, c}, nil },
	}
}

type called struct {
	scripted
	c *controller
}

func (p *called) Reconcile(ctx context.Context) (*reconcile.Result, error) {
	p.journal.Note("reconcile %s", p.name)
	if p.reconcile == nil {
		return nil, nil
	}
	return p.reconcile(ctx, p.c)
}

func (p *called) Terminate(ctx context.Context) (*reconcile.Result, error) {
	p.journal.Note("terminate %s", p.name)
	if p.terminate == nil {
		return nil, nil
	}
	return p.terminate(ctx, p.c)
}

func TestReconciler_MakesAndUnmakes(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		var c cloud
		s.start(o, digs(&process{}, &c))
		s.Make("a")
		s.expectSoon("a", metav1.ConditionTrue, "Completed")
		has := s.Read("a")
		if c.everMade() != 1 || has.Status.TunnelID == "" || !slices.Contains(has.Finalizers, finalizer) {
			t.Errorf("%d tunnels created, object %+v", c.everMade(), has)
		}
		s.Remove("a")
		s.ExpectGone("a")
		if c.everMade() != 1 || c.left() != 0 {
			t.Errorf("%d tunnels created, %d exist, want 1 and 0", c.everMade(), c.left())
		}
		s.expectLeases(0)
	})
}

// Providers are called in order, and what Terminate deletes is deleted because of the object.
func TestReconciler_GoesThroughTheConditionsInOrder(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Make("a")
	var j servertest.Journal
	waiting := true
	wait := func(ctx context.Context, c *controller) (*reconcile.Result, error) {
		if evidence, isDeclared := deletes.EvidenceOf(ctx); isDeclared != !c.Object().DeletionTimestamp.IsZero() || evidence.Err != nil {
			t.Errorf("deletes for %+v have the evidence %+v", c.Object().ObjectMeta, evidence)
		}
		if waiting {
			return &reconcile.Result{RequeueAfter: 42 * time.Second}, nil
		}
		return nil, nil
	}
	o := inStatus()
	o.Order = []string{"First", "Second"}
	h := s.byHand(o, &process{}, scripted{journal: &j}.factory("Third"),
		scripted{journal: &j, reconcile: wait, terminate: wait}.factory("Second"), scripted{journal: &j}.factory("First"))
	pass := func(after time.Duration, want ...string) {
		t.Helper()
		j.Clear()
		result, err := h.pass("a")
		if err != nil || result.RequeueAfter != after || !slices.Equal(j.All(), want) {
			t.Errorf("got result %v, error %v, calls %v", result, err, j.All())
		}
	}
	pass(42*time.Second, "reconcile First", "reconcile Second")
	waiting = false
	pass(0, "reconcile First", "reconcile Second", "reconcile Third")
	s.Change("a", func(o *Tunnel) { o.Finalizers = append(o.Finalizers, "example.com/theirs") })
	s.Remove("a")
	waiting = true
	pass(42*time.Second, "terminate First", "terminate Second")
	if !slices.Contains(s.Read("a").Finalizers, finalizer) {
		t.Error("finalizer is removed before the last Terminate")
	}
	waiting = false
	pass(0, "terminate First", "terminate Second", "terminate Third")
	testkit.Equal(t, s.Read("a").Finalizers, []string{"example.com/theirs"}, "finalizers")
	pass(0) // The reconciler ignores the object now.
	s.Change("a", func(o *Tunnel) { o.Finalizers = nil })
	pass(0)
}

func TestReconciler_WhatErrorsMean(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "tunnels"}, "a", errBroken)
	for what, test := range map[string]struct {
		err       error
		after     time.Duration
		terminal  bool
		condition string
	}{
		"retryable": {err: errBroken, condition: guard.ReasonFailed},
		"terminal":  {err: reconcile.TerminalError(errBroken), terminal: true, condition: guard.ReasonTerminalError},
		"conflict":  {err: conflict, after: time.Second},
		"held":      {err: fmt.Errorf("delete: %w", &deletes.HeldError{Reason: deletes.LimitExceeded, Err: errBroken})},
		"stale":     {err: fmt.Errorf("look: %w", guard.ErrStale), after: time.Second},
		"locked":    {err: &guard.LockedError{RetryAfter: time.Hour}, after: 5 * time.Second},
		"free soon": {err: &guard.LockedError{RetryAfter: time.Second}, after: 1001 * time.Millisecond},
	} {
		name := strings.ReplaceAll(what, " ", "-")
		s.Make(name)
		events := &recorder{}
		o := inStatus()
		o.Events = events
		fails := func(context.Context, *controller) (*reconcile.Result, error) { return nil, test.err }
		h := s.byHand(o, &process{}, scripted{journal: &servertest.Journal{}, reconcile: fails, terminate: fails}.factory(kind))
		for range 2 {
			result, err := h.pass(name)
			if result.RequeueAfter != test.after || (err == nil) != (test.after > 0) ||
				errors.Is(err, reconcile.TerminalError(nil)) != test.terminal || deletes.IsHeld(err) != (what == "held") {
				t.Errorf("%s: got result %v, error %v", what, result, err)
			}
		}
		if test.condition == "" {
			if has := s.Read(name).Status.Conditions; len(has) > 0 || len(events.all()) > 0 {
				t.Errorf("%s: got conditions %+v, events %v, want none", what, has, events.all())
			}
			continue
		}
		s.expect(name, metav1.ConditionFalse, test.condition)
		if all := events.all(); len(all) != 2 || !strings.Contains(all[0], test.condition+" Reconcile: ") {
			t.Errorf("%s: got events %q", what, all)
		}
		s.Remove(name)
		if _, err := h.pass(name); err == nil || errors.Is(err, reconcile.TerminalError(nil)) {
			t.Errorf("%s: during the deletion: got error %v, want a retryable error", what, err)
		}
	}
}

// D6: any error was final, also during the deletion of the object, and retries had no backoff.
func TestD6_ErrorsAreNotTheEnd(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		var j servertest.Journal
		var mu sync.Mutex
		result := errBroken
		set := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			result = err
		}
		works := func(ctx context.Context, c *controller) (*reconcile.Result, error) {
			return nil, c.Guard(ctx, "dig", func(context.Context, guard.Attempt) (guard.Outcome, error) {
				mu.Lock()
				defer mu.Unlock()
				return done, result
			})
		}
		once := func(ctx context.Context, c *controller) (*reconcile.Result, error) {
			if c.Settled() == "Done" {
				return nil, nil
			}
			return works(ctx, c)
		}
		s.start(o, scripted{journal: &j, reconcile: once, terminate: works}.factory(kind))
		began := time.Now()
		s.Make("a")
		n := 0
		s.Eventually(func() error {
			if n = j.Count("reconcile " + kind); n < 5 {
				return fmt.Errorf("%d tries", n)
			}
			return check(s.Read("a"), "False", guard.ReasonFailed)
		})
		// With a backoff that starts at 100 ms, the retries are after 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s. Events make two more tries at most.
		if least, took := 100*time.Millisecond*(1<<(n-3)-1), time.Since(began); took < least {
			t.Errorf("got %d tries in %v, want them in %v at least", n, took, least)
		}
		set(nil)
		s.expectSoon("a", metav1.ConditionTrue, "Done")

		set(reconcile.TerminalError(errBroken))
		s.Make("b")
		s.expectSoon("b", metav1.ConditionFalse, guard.ReasonTerminalError)
		s.Remove("b")
		s.Eventually(func() error {
			if j.Count("terminate "+kind) < 3 {
				return errors.New("the deletion is not tried again")
			}
			return nil
		})
		set(nil)
		s.ExpectGone("b")
	})
}

// D12: the providers were hard-coded in a switch.
func TestD12_FactoriesAreChosenByWhatTheyHandle(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Make("a", func(o *Tunnel) { o.Spec.Company = "both" })
	s.Make("b", func(o *Tunnel) { o.Spec.Company = "other" })
	s.Make("c", func(o *Tunnel) { o.Spec.Company = "neither" })
	var j servertest.Journal
	of := func(company string) factory {
		f := scripted{journal: &j}.factory(kind)
		f.Name = company
		f.Handles = func(o *Tunnel) bool { return o.Spec.Company == "both" || o.Spec.Company == company }
		return f
	}
	h := s.byHand(inStatus(), &process{}, of("one"), of("other"))
	if _, err := h.pass("a"); !errors.Is(err, guard.ErrAmbiguousProvider) || !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("object of two factories: got %v, want a terminal ErrAmbiguousProvider", err)
	}
	must(t, testkit.Err(h.pass("b")))
	must(t, testkit.Err(h.pass("c")))
	if all := j.All(); len(all) != 1 || len(s.Read("a").Finalizers)+len(s.Read("c").Finalizers) > 0 {
		t.Errorf("got calls %v, want one", all)
	}
}

// In operatorkit, an object without a handler lost its finalizer. Here an object with locks keeps it until a provider
// handles it.
func TestReconciler_WhatNobodyHandlesKeepsItsFinalizer(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		events := &recorder{}
		o.Events = events
		var j servertest.Journal
		var c cloud
		digger, other := digs(&process{}, &c), scripted{journal: &j}.factory("Other")
		digger.Handles = func(o *Tunnel) bool { return o.Spec.Company == "" }
		other.Handles = func(o *Tunnel) bool { return o.Spec.Company != "nobody" }
		h := s.byHand(o, &process{}, other, digger)
		for name, company := range map[string]string{"a": "nobody", "b": "another"} {
			s.Make(name)
			must(t, h.settle(name))
			s.Change(name, func(o *Tunnel) { o.Spec.Company = company })
			s.Remove(name)
			if _, err := h.pass(name); !errors.Is(err, guard.ErrNoProvider) || errors.Is(err, reconcile.TerminalError(nil)) {
				t.Errorf("%s: got %v, want a retryable ErrNoProvider", name, err)
			}
			if !slices.Contains(s.Read(name).Finalizers, finalizer) {
				t.Errorf("%s: finalizer was removed", name)
			}
		}
		if all := events.all(); c.left() != 2 || len(all) != 2 || !strings.Contains(all[0], finalizer) {
			t.Errorf("%d tunnels exist, events: %q", c.left(), all)
		}
		for _, name := range []string{"a", "b"} { // A provider handles it again.
			s.Change(name, func(o *Tunnel) { o.Spec.Company = "" })
			must(t, h.settle(name))
			s.ExpectGone(name)
		}
		testkit.Equal(t, c.left(), 0, "tunnels")
		t.Run("an object without locks may be deleted", func(t *testing.T) {
			s.Make("c", func(o *Tunnel) { o.Spec.Company = "another" })
			must(t, h.settle("c"))
			s.Remove("c")
			must(t, h.settle("c"))
			s.ExpectGone("c")
		})
	})
}

func TestReconciler_AFactoryThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Make("a")
	h := s.byHand(inStatus(), &process{}, factory{
		Name: "broken", ConditionType: kind,
		New: func(context.Context, *controller) (guard.Provider, error) { return nil, errBroken },
	})
	testkit.ErrorIs(t, testkit.Err(h.pass("a")), errBroken)
	testkit.Has(t, s.expect("a", metav1.ConditionFalse, guard.ReasonFailed).Message, "create provider broken", "condition")
}

// A reconciler can watch dependents of its object, as the original host did.
func TestReconciler_WatchesWhatBelongsToTheObject(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Make("a")
	o := inStatus()
	o.Build = func(b *ctrl.Builder) { b.Owns(&corev1.ConfigMap{}) }
	s.start(o, scripted{journal: &servertest.Journal{}, reconcile: func(ctx context.Context, c *controller) (*reconcile.Result, error) {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}}
		if err := c.Create(ctx, child); err != nil {
			return nil, err
		}
		if child.Data["up"] == "" {
			return &reconcile.Result{}, c.UpdateCondition(ctx, metav1.ConditionFalse, "Waiting", "")
		}
		return nil, c.UpdateCondition(ctx, metav1.ConditionTrue, "Up", "")
	}}.factory(kind))
	s.expectSoon("a", metav1.ConditionFalse, "Waiting")
	child := &corev1.ConfigMap{}
	must(t, s.Get(t.Context(), s.Key("child"), child))
	child.Data = map[string]string{"up": "yes"}
	must(t, s.Update(t.Context(), child))
	s.expectSoon("a", metav1.ConditionTrue, "Up")
}

// One reconcile handles several conditions of one object, each with its own lock.
func TestReconciler_ManyConditions(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		settle := func(ctx context.Context, c *controller) (*reconcile.Result, error) {
			if c.Settled() == "Done" {
				return nil, nil
			}
			return nil, c.Guard(ctx, "dig", func(context.Context, guard.Attempt) (guard.Outcome, error) { return done, nil })
		}
		var factories []factory
		for _, one := range []string{"Tunneled", "Routed", "example.com/Named"} {
			factories = append(factories, scripted{journal: &servertest.Journal{}, reconcile: settle}.factory(one))
		}
		s.Make("a")
		must(t, s.byHand(o, &process{}, factories...).settle("a"))
		for _, f := range factories {
			if !meta.IsStatusConditionTrue(s.Read("a").Status.Conditions, f.ConditionType) {
				t.Errorf("%s: got status %+v", f.ConditionType, s.Read("a").Status)
			}
		}
	})
}
