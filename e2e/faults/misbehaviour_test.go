// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"sync"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
)

// misbehaviour has modules that misbehave in the remotes for which it is switched on.
type misbehaviour struct {
	mu sync.Mutex // protects on
	on map[registry.ClusterName]bool
}

func newMisbehaviour() *misbehaviour { return &misbehaviour{on: map[registry.ClusterName]bool{}} }

// Names of the modules.
const (
	// panicking has an event handler that panics.
	panicking = "panicking"
	// looping has a reconciler that requeues each request at once.
	looping = "looping"
	// widgets watches a kind that remotes have only after its CRD is installed.
	widgets = "widgets"
	// tidy has a cleanup step that writes to the remote.
	tidy = "tidy"
	// lingering has a runnable that takes the time lingers to stop.
	lingering = "lingering"
)

func (m *misbehaviour) modules(w *stopwatch) []registry.Module {
	return []registry.Module{
		registry.NewModule(panicking, registry.ModuleOptions{Remote: fx.Invoke(m.panics)}),
		registry.NewModule(looping, registry.ModuleOptions{Remote: fx.Invoke(m.loops)}),
		registry.NewModule(widgets, registry.ModuleOptions{Remote: fx.Invoke(w.watchWidgets)}),
		registry.NewModule(tidy, registry.ModuleOptions{Remote: fx.Provide(registry.AsCleanup(tidyUp))}),
		registry.NewModule(lingering, registry.ModuleOptions{Remote: fx.Invoke(linger)}),
	}
}

// set switches misbehaviour on or off for a remote.
func (m *misbehaviour) set(cluster registry.ClusterName, on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on[cluster] = on
}

func (m *misbehaviour) isOn(cluster registry.ClusterName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on[cluster]
}

func (m *misbehaviour) panics(p registry.Remote) error {
	return ctrl.NewControllerManagedBy(p.Manager).Named(panicking).For(&corev1.ConfigMap{}).
		WithEventFilter(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool {
				if m.isOn(p.Name) {
					panic("of a module, on purpose")
				}
				return true
			},
			UpdateFunc: func(event.UpdateEvent) bool {
				if m.isOn(p.Name) {
					panic("of a module, on purpose")
				}
				return true
			},
		}).
		Complete(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
}

func (m *misbehaviour) loops(p registry.Remote) error {
	return registry.ControllerManagedBy(p.Manager).Named(looping).For(&corev1.ConfigMap{}).
		Complete(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
			if m.isOn(p.Name) {
				return ctrl.Result{RequeueAfter: time.Nanosecond}, nil
			}
			return ctrl.Result{}, nil
		}))
}

var widgetKind = schema.GroupVersionKind{Group: "faults.example.com", Version: "v1", Kind: "Widget"}

func (w *stopwatch) watchWidgets(p registry.Remote) error {
	return ctrl.NewControllerManagedBy(p.Manager).Named(widgets).For(newWidget()).
		Complete(reconcile.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
			defer w.enter(p.Name, p.Status.Epoch, r.NamespacedName)()
			return ctrl.Result{}, nil
		}))
}

func newWidget() *unstructured.Unstructured {
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(widgetKind)
	return widget
}

const lingers = 250 * time.Millisecond

func linger(p registry.Remote) error {
	return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		<-time.After(lingers)
		return nil
	}))
}

func tidyUp(name registry.ClusterName, remote client.Client) registry.CleanupStep {
	return registry.CleanupStep{Name: tidy + "/everything", Run: func(ctx context.Context) error {
		return remote.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(name))
	}}
}
