// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"reflect"
	"runtime"
	"sync"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry/liveness"
)

// The name, the reconciler and the queue of a controller are in exported fields of a type of controller-runtime without
// an exported name and without methods for them. Only this file reads and sets them; TestControllerFields fails if a
// later version has others.

func fieldOf(controller manager.Runnable, name string) reflect.Value {
	v := reflect.Indirect(reflect.ValueOf(controller))
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	field, ok := v.Type().FieldByName(name)
	if !ok || len(field.Index) != 1 || !field.IsExported() {
		return reflect.Value{}
	}
	return v.FieldByIndex(field.Index)
}

const unnamed = "controller"

func nameOf(controller manager.Runnable) string {
	if field := fieldOf(controller, "Name"); field.Kind() == reflect.String && field.Len() > 0 {
		return field.String()
	}
	return unnamed
}

// supervisorOf returns nil for a controller that is not supervised, or whose reconciler is not known.
func supervisorOf(controller manager.Runnable) supervisedReconciler {
	if field := fieldOf(controller, "Do"); field.IsValid() {
		s, _ := field.Interface().(supervisedReconciler)
		return s
	}
	return nil
}

// setQueue gives a controller a Queue, unless its module has chosen another with NewQueue or UsePriorityQueue, and lets
// the monitor watch whichever it has. The controller must be supervised if its requests are no ctrl.Requests: only the
// reconciler knows their type. The log has the others, as those that are not supervised.
func (g *Container) setQueue(controller manager.Runnable, name string) {
	field := fieldOf(controller, "NewQueue")
	if !field.IsValid() || !field.CanSet() {
		return
	}
	of := liveness.Subject{Module: g.Module, Controller: name}
	if s := supervisorOf(controller); s != nil {
		s.setQueue(g.App, field, of)
		return
	}
	setQueue[ctrl.Request](g.App, field, of)
}

func setQueue[request comparable](app *App, field reflect.Value, of liveness.Subject) {
	made, ok := field.Interface().(liveness.NewQueue[request])
	if !ok {
		return
	}
	switch q := app.Queues; {
	case q == nil:
	case q.counted != nil:
		made = newCountedQueue[request](q, app.Name)
	case functionName(field) == q.standard:
		made = newQueue(made, q.metrics)
	}
	if app.Monitor != nil {
		made = liveness.Wrap(app.Monitor, of, made)
	}
	field.Set(reflect.ValueOf(made))
}

// newQueue: UsePriorityQueue shows only in the queue that the standard function makes, so that is called, and a priority
// queue is shut down at once.
func newQueue[request comparable](standard liveness.NewQueue[request], m *QueueMetrics) liveness.NewQueue[request] {
	return func(name string, limiter workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
		chosen := standard(name, limiter)
		if _, prioritized := chosen.(priorityqueue.PriorityQueue[request]); !prioritized {
			return chosen
		}
		chosen.ShutDown()
		return NewQueue(name, limiter, m)
	}
}

// Queues are what the Queues of all controllers of a hub have in common.
type Queues struct {
	metrics *QueueMetrics
	// standard is the function that makes the queue without NewQueue, by name, since the name does not depend on the
	// type of requests.
	standard string

	mu      sync.Mutex           // protects the content of the field
	counted map[string][]counted // in a rehearsal, the queues of controllers by the name of their App; nil otherwise
}

// NewQueues returns the Queues of a hub.
func NewQueues() *Queues {
	reference, err := controller.NewUnmanaged("queue", controller.Options{
		SkipNameValidation: new(true),
		Reconciler: reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
			return ctrl.Result{}, nil
		}),
	})
	if err != nil {
		panic(err) // no option is wrong
	}
	return &Queues{metrics: NewQueueMetrics(metrics.Registry), standard: functionName(fieldOf(reference, "NewQueue"))}
}

func functionName(v reflect.Value) string {
	if v.Kind() != reflect.Func || v.IsNil() {
		return ""
	}
	return runtime.FuncForPC(v.Pointer()).Name()
}
