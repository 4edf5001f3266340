// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/guard"
)

// tries records the times at which a task was tried.
type tries struct {
	mu sync.Mutex
	at []time.Time
}

func (o *tries) note() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = append(o.at, time.Now())
}

// first returns the duration of the first n tries, once there are as many.
func (o *tries) first(n int) (time.Duration, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.at) < n {
		return 0, errors.New("too few tries")
	}
	return o.at[n-1].Sub(o.at[0]), nil
}

// A custom reconciler whose Guard fails each time gets the backoff of its controller's queue: without the predicate,
// the writes of a Guard would trigger a reconcile too early.
func TestPredicate_GivesAHostItsBackoff(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		mgr := s.Manager()
		h, err := guard.NewHost(mgr.GetClient(), mgr.GetAPIReader(), o)
		must(t, err)
		var tried tries
		dig := func(ctx context.Context, tunnel *Tunnel) (reconcile.Result, error) {
			c, err := h.Controller(ctx, tunnel, kind)
			if err != nil {
				return reconcile.Result{}, err
			}
			return reconcile.Result{}, c.Guard(ctx, "dig", func(context.Context, guard.Attempt) (guard.Outcome, error) {
				tried.note()
				return done, errBroken
			})
		}
		const base, n = 100 * time.Millisecond, 5
		skip := true
		must(t, ctrl.NewControllerManagedBy(mgr).Named(name).
			For(&Tunnel{}, builder.WithPredicates(h.Predicate())).
			WithOptions(crcontroller.Options{
				SkipNameValidation: &skip,
				RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](base, time.Hour),
			}).
			Complete(reconcile.AsReconciler(mgr.GetClient(), reconcilerFunc(dig))))
		s.Run(mgr)
		s.Make("a")
		s.Eventually(func() error {
			took, err := tried.first(n)
			if least := 15 * base; err == nil && took < least { // 1 + 2 + 4 + 8
				t.Errorf("first %d tries took %v, want at least %v", n, took, least)
			}
			return err
		})
	})
}

type reconcilerFunc func(context.Context, *Tunnel) (reconcile.Result, error)

func (f reconcilerFunc) Reconcile(ctx context.Context, t *Tunnel) (reconcile.Result, error) {
	return f(ctx, t)
}
