// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// A request that the end of an app cancels is not logged as an error, and neither are the reports of the app's libraries.
func TestLog_TheEndOfAnAppIsNoError(t *testing.T) {
	t.Parallel()
	began, rudeBegan := make(chan struct{}, 100), make(chan struct{}, 100)
	busy := registry.NewModule("busy", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return ctrl.NewControllerManagedBy(p.Manager).Named("busy").For(&corev1.Namespace{}).Complete(reconcile.Func(
			func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
				began <- struct{}{}
				one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "never"}}
				return ctrl.Result{}, p.Client.Create(ctx, one)
			}))
	})})
	rude := registry.NewModule("rude", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return ctrl.NewControllerManagedBy(p.Manager).Named("rude").For(&corev1.Namespace{}).Complete(reconcile.Func(
			func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
				rudeBegan <- struct{}{}
				<-ctx.Done()
				return ctrl.Result{}, errors.New("an error that does not say that the app has ended")
			}))
	})})
	var log logLines
	r := newRegistry(t, func(o *registry.Options) { o.Modules, o.Log = []registry.Module{busy, rude}, log.log() })
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	f.set(func(r *http.Request) bool { return r.Method == http.MethodPost }, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	spawn(t, r, "edge", config)
	for _, one := range []chan struct{}{began, rudeBegan} {
		select {
		case <-one:
		case <-t.Context().Done():
			t.Fatal("a reconciler was never called")
		}
	}
	must(t, r.Stop(t.Context(), "edge"))
	var failures, left []string
	for _, line := range log.with(`"error"=`) {
		switch {
		case !strings.Contains(line, `"level"=`):
			failures = append(failures, line)
		case strings.Contains(line, "Reconciler error"):
			left = append(left, line)
		}
	}
	if len(failures) > 0 {
		t.Errorf("got logged errors %q, want 0", failures)
	}
	if len(left) < 2 {
		t.Errorf("got debug lines %q, want the errors of both reconcilers", left)
	}
}
