// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// errorLines is a log sink that keeps errors and debug lines.
type errorLines struct {
	logr.LogSink
	kept *keptLines
}

type keptLines struct {
	mu            sync.Mutex // protects the fields
	errors, debug []string
}

func newErrorLines() (logr.Logger, *keptLines) {
	kept := &keptLines{}
	return logr.New(&errorLines{kept: kept}), kept
}

func (l *errorLines) Init(logr.RuntimeInfo)             {}
func (l *errorLines) Enabled(int) bool                  { return true }
func (l *errorLines) WithValues(...any) logr.LogSink    { return l }
func (l *errorLines) WithName(name string) logr.LogSink { return l }

func (l *errorLines) Info(level int, msg string, _ ...any) {
	l.kept.mu.Lock()
	defer l.kept.mu.Unlock()
	if level > 0 {
		l.kept.debug = append(l.kept.debug, msg)
	}
}

func (l *errorLines) Error(_ error, msg string, _ ...any) {
	l.kept.mu.Lock()
	defer l.kept.mu.Unlock()
	l.kept.errors = append(l.kept.errors, msg)
}

// A request that the end of an app cancels is not logged as an error, and neither are the reports of the app's
// libraries.
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
	log, kept := newErrorLines()
	r := newRegistry(t, func(o *registry.Options) { o.Modules, o.Log = []registry.Module{busy, rude}, log })
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
	if err := r.Stop(t.Context(), "edge"); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if len(kept.errors) > 0 {
		t.Errorf("got logged errors %q, want 0", kept.errors)
	}
	left := slices.DeleteFunc(kept.debug, func(line string) bool { return line != "Reconciler error" })
	if len(left) < 2 {
		t.Errorf("got debug lines %q, want the errors of both reconcilers", left)
	}
}
