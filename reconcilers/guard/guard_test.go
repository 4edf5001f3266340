// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
)

func TestGuard_LocksRunsAndSettles(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		c := s.controller(s.host(o), "a")
		if has := c.Condition(); has.Status != metav1.ConditionUnknown || has.Type != kind || c.Settled() != "" {
			t.Errorf("before the first Guard: got condition %+v, settled %q", has, c.Settled())
		}
		var first guard.Attempt
		must(t, c.Guard(t.Context(), "dig", func(_ context.Context, a guard.Attempt) (guard.Outcome, error) {
			first = a
			testkit.Equal(t, s.expect("a", metav1.ConditionUnknown, guard.ReasonLocked).Message, "dig", "condition of a running task")
			if c.Condition().Reason != guard.ReasonLocked {
				t.Errorf("condition in the task's view: got %+v", c.Condition())
			}
			return done, nil
		}))
		if first.ID == "" || first.Number != 1 || first.Recovering || first.Intent != "dig" {
			t.Errorf("got attempt %+v", first)
		}
		has := s.expect("a", metav1.ConditionTrue, "Done")
		if has.Message != "It is done" || c.Condition().Reason != "Done" || c.Settled() != "Done" {
			t.Errorf("after the Guard: got %+v in the API, %+v in the controller", has, c.Condition())
		}
		t.Run("the next attempt has another ID", func(t *testing.T) {
			must(t, c.Guard(t.Context(), "dig deeper", func(_ context.Context, a guard.Attempt) (guard.Outcome, error) {
				if a.ID == first.ID || a.Number != 2 || a.Recovering || c.Settled() != "Done" {
					t.Errorf("got attempt %+v after %+v, settled %s", a, first, c.Settled())
				}
				return done, nil
			}))
		})
	})
}

func TestGuard_NobodyElseRunsATaskMeanwhile(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		here, there := s.host(o), s.host(o)
		must(t, s.controller(here, "a").Guard(t.Context(), "dig", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
			for whose, h := range map[string]*host{"ours": here, "of another replica": there} {
				c := s.controller(h, "a")
				err := c.Guard(ctx, "dig", noTask(t))
				locked, ok := errors.AsType[*guard.LockedError](err)
				if !ok || !errors.Is(err, guard.ErrLocked) || locked.RetryAfter <= 0 || locked.RetryAfter > ttl {
					t.Errorf("Guard %s: got %v, want ErrLocked", whose, err)
				}
			}
			for whose, h := range map[string]*host{"ours": here, "of another replica": there} {
				testkit.ErrorIs(t, s.controller(h, "a").UpdateCondition(ctx, "True", "Done", ""), guard.ErrLocked, "UpdateCondition", whose)
			}
			if o.Locks == nil {
				if err := s.controller(there, "a").Forget(ctx); !errors.Is(err, guard.ErrLocked) || len(s.leases()) != 1 {
					t.Errorf("Forget: got %v, Leases %+v, want ErrLocked and one Lease", err, s.leases())
				}
			}
			return done, nil
		}))
		must(t, s.controller(there, "a").Guard(t.Context(), "dig", func(context.Context, guard.Attempt) (guard.Outcome, error) {
			return done, nil
		}))
	})
}

// A Guard with a stale view does not run its task. In the original, a view was stale if its resourceVersion was.
func TestGuard_NothingIsDoneForAStaleView(t *testing.T) {
	t.Parallel()
	changes := map[string]func(s *server, o options, name string){
		"spec": func(s *server, _ options, name string) { s.Change(name, func(o *Tunnel) { o.Spec.Company = "new" }) },
		"annotation": func(s *server, _ options, name string) {
			s.Change(name, func(o *Tunnel) { o.Annotations = map[string]string{"a": "b"} })
		},
		"label": func(s *server, _ options, name string) {
			s.Change(name, func(o *Tunnel) { o.Labels = map[string]string{"a": "b"} })
		},
		"deletion":   func(s *server, _ options, name string) { s.Remove(name) },
		"another-it": func(s *server, _ options, name string) { s.removeNow(name); s.Make(name) },
		"condition": func(s *server, o options, name string) {
			must(s.T, s.controller(s.host(o), name).UpdateCondition(s.T.Context(), "True", "X", ""))
		},
		"attempt": func(s *server, o options, name string) { s.guard(s.host(o), name, done, nil) },
	}
	inBoth(t, func(t *testing.T, s *server, o options) {
		for name, change := range changes {
			s.Make(name, func(o *Tunnel) { o.Finalizers = []string{"example.com/keep"} })
			c := s.controller(s.host(o), name)
			change(s, o, name)
			testkit.ErrorIs(t, c.Guard(t.Context(), "dig", noTask(t)), guard.ErrStale, name, "Guard returns")
			testkit.ErrorIs(t, c.UpdateCondition(t.Context(), "True", "Other", ""), guard.ErrStale, name, "UpdateCondition returns")
		}
	})
	t.Run("of a kind without a generation", func(t *testing.T) {
		t.Parallel()
		s := newServer(t)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: s.Namespace}}
		must(t, s.Create(t.Context(), cm))
		h, err := guard.NewHost[*corev1.ConfigMap](s, s, guard.Options[*corev1.ConfigMap]{Name: "maps"})
		must(t, err)
		stale, err := h.Controller(t.Context(), cm.DeepCopy(), kind)
		must(t, err)
		cm.Data = map[string]string{"a": "b"}
		must(t, s.Update(t.Context(), cm))
		testkit.ErrorIs(t, stale.Guard(t.Context(), "dig", noTask(t)), guard.ErrStale, "Guard")
		fresh, err := h.Controller(t.Context(), cm, kind)
		must(t, err)
		must(t, fresh.SetFinalizer(t.Context(), "example.com/f"))
		must(t, fresh.Guard(t.Context(), "dig", func(context.Context, guard.Attempt) (guard.Outcome, error) { return done, nil }))
		again, err := h.Controller(t.Context(), fresh.Object(), kind)
		must(t, err)
		if again.Settled() != "Done" || again.Condition().Status != metav1.ConditionTrue {
			t.Errorf("view of a second controller: got settled %q, condition %+v", again.Settled(), again.Condition())
		}
	})
}

func (s *server) guard(h *host, name string, o guard.Outcome, result error) (attempt guard.Attempt) {
	s.T.Helper()
	err := s.controller(h, name).Guard(s.T.Context(), "dig", func(_ context.Context, a guard.Attempt) (guard.Outcome, error) {
		attempt = a
		return o, result
	})
	testkit.ErrorIs(s.T, err, result, "Guard")
	return attempt
}

// removeNow deletes a Tunnel with its finalizers.
func (s *server) removeNow(name string) {
	s.T.Helper()
	s.Change(name, func(o *Tunnel) { o.Finalizers = nil })
	s.Remove(name)
	s.ExpectGone(name)
}

func TestGuard_ErrorsKeepTheAttempt(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		h := s.host(o)
		first := s.guard(h, "a", guard.Outcome{}, errBroken)
		testkit.Equal(t, s.expect("a", metav1.ConditionFalse, guard.ReasonFailed).Message, "broken", "condition")
		second := s.guard(s.host(o), "a", done, errBroken)
		if second.ID != first.ID || !second.Recovering || second.Number != 1 {
			t.Errorf("got attempts %+v and %+v", first, second)
		}
		s.expect("a", metav1.ConditionFalse, guard.ReasonFailed)
		testkit.Equal(t, s.controller(h, "a").Settled(), "", "settled")
		t.Run("a terminal error, too, for it says nothing of the run before", func(t *testing.T) {
			s.guard(h, "a", guard.Outcome{}, reconcile.TerminalError(errBroken))
			s.expect("a", metav1.ConditionFalse, guard.ReasonTerminalError)
			third := s.guard(h, "a", done, nil)
			if third.ID != first.ID || !third.Recovering || third.Number != 1 {
				t.Errorf("got attempts %+v and %+v", first, third)
			}
		})
		t.Run("but a terminal error of the first run ends it", func(t *testing.T) {
			refused := s.guard(h, "a", guard.Outcome{}, reconcile.TerminalError(errBroken))
			s.expect("a", metav1.ConditionFalse, guard.ReasonTerminalError)
			next := s.guard(h, "a", done, nil)
			if next.ID == refused.ID || next.Recovering || next.Number != 3 {
				t.Errorf("got attempts %+v and %+v", refused, next)
			}
		})
		t.Run("as one does that Classify says is one", func(t *testing.T) {
			o := o
			o.Classify = func(error) guard.Class { return guard.Terminal }
			s.guard(s.host(o), "a", guard.Outcome{}, errBroken)
			s.expect("a", metav1.ConditionFalse, guard.ReasonTerminalError)
		})
	})
}

func TestGuard_APanicIsReportedAndGoesOn(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		h := s.host(o)
		c := s.controller(h, "a")
		func() {
			defer func() {
				if recover() != "oops" {
					t.Error("Guard did not propagate the panic")
				}
			}()
			_ = c.Guard(t.Context(), "dig", func(context.Context, guard.Attempt) (guard.Outcome, error) { panic("oops") })
		}()
		s.expect("a", metav1.ConditionUnknown, guard.ReasonPanicked)
		if next := s.guard(s.host(o), "a", done, nil); !next.Recovering || next.Number != 1 {
			t.Errorf("next attempt: got %+v, want Recovering", next)
		}
	})
}

func TestGuard_AReconcileThatEndsGivesTheLockBack(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		ctx, cancel := context.WithCancel(t.Context())
		err := s.controller(s.host(o), "a").Guard(ctx, "dig", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
			cancel()
			<-ctx.Done()
			return guard.Outcome{}, ctx.Err()
		})
		testkit.ErrorIs(t, err, context.Canceled, "Guard")
		s.expect("a", metav1.ConditionUnknown, guard.ReasonInterrupted)
		if next := s.guard(s.host(o), "a", done, nil); !next.Recovering {
			t.Errorf("next attempt: got %+v, want Recovering", next)
		}
	})
}

// The lock of a running task is renewed; when the renewal fails, the context of the task ends in time.
func TestGuard_TheContextOfATaskEndsWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		o.TTL = 6 * time.Second // A busy machine renews in time.
		var p process
		h := newHost(t, p.client(s), o)
		alive, die := context.WithCancel(t.Context())
		h.SetClock(alive)
		began := time.Now()
		err := s.controller(h, "a").Guard(t.Context(), "dig", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
			s.Eventually(func() error { // renewed
				if time.Since(began) < 3*o.TTL/2 && ctx.Err() == nil {
					return errors.New("too early")
				}
				return nil
			})
			must(t, ctx.Err())
			p.kill()
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, guard.ErrLockLost) {
				t.Errorf("cause: got %v, want ErrLockLost", cause)
			}
			die() // otherwise the host retries the write of the outcome
			return guard.Outcome{}, context.Cause(ctx)
		})
		testkit.ErrorIs(t, err, guard.ErrLockLost, "Guard")
		s.expect("a", metav1.ConditionUnknown, guard.ReasonLocked)
	})
	t.Run("and when another holder has taken it", func(t *testing.T) {
		t.Parallel()
		s := newServer(t)
		s.Make("a")
		o := inStatus()
		o.TTL = time.Second
		var id string
		err := s.controller(s.host(o), "a").Guard(t.Context(), "dig", func(ctx context.Context, a guard.Attempt) (guard.Outcome, error) {
			id = a.ID
			must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // The lock is renewed at the same time.
				tunnel := s.Read("a")
				tunnel.Status.Locks = nil
				return s.Status().Update(t.Context(), tunnel) // as a user would
			}))
			<-ctx.Done()
			return done, nil
		})
		testkit.ErrorIs(t, err, guard.ErrLockLost, "Guard of attempt", id)
	})
}

func TestUpdateStatus_ChangesWhatIsThere(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		c := s.controller(s.host(o), "a")
		stale := s.Read("a")
		must(t, s.controllerOf(s.host(o), stale, "Other").UpdateCondition(t.Context(), "True", "Fine", ""))
		must(t, c.Guard(t.Context(), "dig", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
			return done, c.UpdateStatus(ctx, func(o *Tunnel) error {
				o.Status = TunnelStatus{TunnelID: "t"} // also clears the other fields, as the original's Update did
				return nil
			})
		}))
		has := s.Read("a")
		if has.Status.TunnelID != "t" || c.Object().Status.TunnelID != "t" ||
			!meta.IsStatusConditionTrue(has.Status.Conditions, "Other") || !meta.IsStatusConditionTrue(has.Status.Conditions, kind) {
			t.Errorf("got status %+v", has.Status)
		}
		testkit.ErrorIs(t, c.UpdateStatus(t.Context(), func(*Tunnel) error { return errBroken }), errBroken, "error of mutate")
		s.Change("a", func(o *Tunnel) { o.Spec.Company = "new" })
		testkit.ErrorIs(t, c.UpdateStatus(t.Context(), func(*Tunnel) error { return nil }), guard.ErrStale, "UpdateStatus with an outdated object")
	})
}
