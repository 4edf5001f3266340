// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func reconciling(p registry.Remote, do func(context.Context, ctrl.Request) error) error {
	r := reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, do(ctx, r) })
	return registry.ControllerManagedBy(p.Manager).Named("broken").For(&corev1.ConfigMap{}).
		Complete(r)
}

// A controller whose reconciles all panic fails its module, and does not continue to look healthy.
func TestSupervise_NothingButPanics(t *testing.T) {
	t.Parallel()
	w := newWard(t, func(w *ward, p registry.Remote) error {
		return reconciling(p, func(context.Context, ctrl.Request) error {
			if w.isIll(p) {
				panic("boom")
			}
			return nil
		})
	}, nil)
	w.ill.Store(true)
	for range 3 {
		newConfigMap(t, w.sick)
	}
	w.expectIllness(t, state.ReasonModuleFailed, "does nothing but panic", "panic: boom")
	w.expectModuleFailed(t, state.ReasonModuleFailed)
	if got := w.panics(t, "broken"); got < 20 {
		t.Errorf("got %v counted panics, want ten in each of two apps", got)
	}
	w.ill.Store(false)
	expectState(t, w.Registry, sick, state.StateReady, state.ReasonReady)
	w.beside.check(t, noticedBusy)
}

// A reconciler that never returns is detected: its app ends, with the stack in the log, and the next app works,
// although the goroutine still exists.
func TestSupervise_Stuck(t *testing.T) {
	t.Parallel()
	var stuck atomic.Pointer[chan struct{}]
	follow := func(next *chan struct{}) {
		if before := stuck.Swap(next); before != nil {
			close(*before)
		}
	}
	defer follow(nil)
	var logged atomic.Value
	logged.Store("")
	w := newWard(t, func(w *ward, p registry.Remote) error {
		end := make(chan struct{})
		if p.Name == sick {
			follow(&end) // An app of which three were abandoned is not restarted: that of before ends now.
		}
		return reconciling(p, func(_ context.Context, r ctrl.Request) error {
			if w.isIll(p) && r.Namespace == metav1.NamespaceDefault {
				<-end
			}
			return nil
		})
	}, func(o *registry.Options) {
		// An app is stuck after twice the ReconcileTimeout: on a busy machine, a healthy neighbour may need some seconds.
		o.Limits = registry.Limits{ReconcileTimeout: 5 * time.Second, StopTimeout: 300 * time.Millisecond}
		o.Log = funcr.New(func(_, line string) {
			// On a busy machine, a working reconciler may be slow, too.
			if strings.Contains(line, "A reconciler does not return") && !strings.Contains(logged.Load().(string), "TestSupervise_Stuck") {
				logged.Store(line)
			}
		}, funcr.Options{})
	})
	w.ill.Store(true)
	newConfigMap(t, w.sick)
	w.expectIllness(t, state.ReasonModuleFailed, "stuck", "10s", "default/")
	w.expectModuleFailed(t, state.ReasonModuleFailed)
	if line := logged.Load().(string); !strings.Contains(line, "TestSupervise_Stuck") || len(line) > 64<<10 {
		t.Errorf("got a log of %d bytes, want the stack of the reconciler within 64 KiB:\n%s", len(line), line)
	}
	testkit.Until(t, "a zombie is counted", func() bool { return w.Zombies() != 0 })
	w.ill.Store(false)
	expectState(t, w.Registry, sick, state.StateReady, state.ReasonReady)
	w.beside.check(t, noticedBusy)
}

// An event handler that never returns is detected when more events, which would pile up, arrive for it.
func TestContain_StuckHandler(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	w := newWard(t, func(w *ward, p registry.Remote) error {
		return watching(p, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request {
			if w.isIll(p) {
				<-release
			}
			return nil
		}))
	}, func(o *registry.Options) {
		o.Limits = registry.Limits{ReconcileTimeout: 3 * time.Second, StopTimeout: 300 * time.Millisecond}
	})
	w.ill.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	direct, done := clientFor(t, w.sick), make(chan struct{})
	go func() {
		defer close(done)
		for poll := time.Tick(20 * time.Millisecond); ctx.Err() == nil; <-poll {
			one := &corev1.ConfigMap{}
			one.GenerateName, one.Namespace = "event-", "default"
			if err := direct.Create(ctx, one); err == nil {
				_ = direct.Delete(context.WithoutCancel(ctx), one)
			}
		}
	}()
	w.expectIllness(t, state.ReasonModuleFailed, "stuck", "event handler", "3s")
	w.ill.Store(false)
	expectState(t, w.Registry, sick, state.StateReady, state.ReasonReady)
	cancel()
	<-done
	w.beside.check(t, noticedBusy)
}

// Without supervision, the panics of a Reconcile are recovered and counted, and the app keeps running.
func TestSupervise_Not(t *testing.T) {
	t.Parallel()
	w := newWard(t, func(w *ward, p registry.Remote) error {
		return ctrl.NewControllerManagedBy(p.Manager).Named("broken").For(&corev1.ConfigMap{}).Complete(
			reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
				if w.isIll(p) {
					panic("boom")
				}
				return ctrl.Result{}, nil
			}))
	}, nil)
	w.ill.Store(true)
	newConfigMap(t, w.sick)
	testkit.Until(t, "the panics are counted", func() bool { return w.panics(t, "broken") >= 2 })
	if info, _ := w.Status(sick); info.State != state.StateReady {
		t.Errorf("the remote is %s, want Ready", info.State)
	}
}

// A supervised reconciler can be tested without a registry.
func TestSupervise_WithAnyOtherManager(t *testing.T) {
	t.Parallel()
	called := false
	r := registry.Supervise(nil, reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
		called = true
		return ctrl.Result{}, nil
	}))
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil || !called {
		t.Errorf("got called = %t, err = %v, want a call without an error", called, err)
	}
}
