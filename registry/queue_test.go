// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/fx"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The controllers of a module have a queue without goroutines, in whichever way the module builds them, and it works.
func TestRegistry_Queues(t *testing.T) {
	t.Parallel()
	types, reconciled := make(chan string, 3), make(chan string, 3)
	plain := func(_ context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		types <- fmt.Sprintf("%T", q)
		r := ctrl.Request{}
		r.Name = "plain"
		q.AddRateLimited(r)
		return nil
	}
	typed := func(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
		types <- fmt.Sprintf("%T", q)
		q.Add("typed")
		return nil
	}
	seen := reconcile.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
		reconciled <- r.Name
		return ctrl.Result{}, nil
	})
	setUp := func(p registry.Remote) error {
		if err := ctrl.NewControllerManagedBy(p.Manager).Named("one").WatchesRawSource(source.Func(plain)).Complete(seen); err != nil {
			return err
		}
		if err := registry.ControllerManagedBy(p.Manager).Named("two").WatchesRawSource(source.Func(plain)).Complete(seen); err != nil {
			return err
		}
		return registry.TypedControllerManagedBy[string](p.Manager).Named("three").
			WatchesRawSource(source.TypedFunc[string](typed)).
			Complete(reconcile.TypedFunc[string](func(_ context.Context, r string) (ctrl.Result, error) {
				reconciled <- r
				return ctrl.Result{}, nil
			}))
	}
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("queues", registry.ModuleOptions{Remote: fx.Invoke(setUp)})}
	})
	_, c := remote(t, "one")
	spawn(t, r, "one", c)
	expectState(t, r, "one", state.StateReady, state.ReasonReady)
	got := map[string]int{}
	for range 3 {
		if q := <-types; !strings.HasPrefix(q, "*contain.Queue[") {
			t.Errorf("queue: got %s, want the queue of the registry", q)
		}
		got[<-reconciled]++
	}
	if got["plain"] != 2 || got["typed"] != 1 {
		t.Errorf("reconciled: got %v, want plain twice and typed once", got)
	}
}
