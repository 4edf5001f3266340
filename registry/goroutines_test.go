// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// A remote with a controller has 16 goroutines at most while nothing happens, and each further controller four more:
// their stacks are a part of what a remote costs. TestManager_HasNoOtherGoroutines shows the share of the manager faster, and
// TestConnection_NoGoroutines, TestInformer_HandlersHaveNoGoroutineAtRest and TestRegistry_Queues those of the connection, the
// informers and the queues.
//
//nolint:paralleltest // It counts the goroutines of the process.
func TestRegistry_GoroutinesOfARemote(t *testing.T) {
	fleettest.Slow(t, "./registry/internal/tests TestManager_HasNoOtherGoroutines")
	_, config := remote(t, "one")
	const remotes = 4
	for _, c := range []struct{ controllers, most int }{{1, 16}, {4, 16 + 3*4}} {
		t.Run(fmt.Sprintf("%d controllers", c.controllers), func(t *testing.T) {
			r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{watchers(c.controllers)} })
			before := runtime.NumGoroutine()
			for n := range remotes {
				spawn(t, r, registry.ClusterName(fmt.Sprintf("quiet-%d", n)), config)
			}
			eventually(t, func() error {
				if got := float64(runtime.NumGoroutine()-before) / remotes; got > float64(c.most) {
					return fmt.Errorf("a remote has %.1f goroutines, want %d at most", got, c.most)
				}
				return nil
			})
			if err := r.Shutdown(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
}

// watchers returns a module with controllers that watch ConfigMaps and do nothing.
func watchers(n int) registry.Module {
	return registry.NewModule("watchers", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		for i := range n {
			nothing := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
			err := ctrl.NewControllerManagedBy(p.Manager).Named(fmt.Sprintf("watcher-%d", i)).For(&corev1.ConfigMap{}).Complete(nothing)
			if err != nil {
				return err
			}
		}
		return nil
	})})
}
