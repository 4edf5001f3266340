// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"reflect"
	"runtime"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry/internal/queue"
)

// Queues gives the controllers of modules the queue of the package queue instead of controller-runtime's priority queue.
// A hub has one. A controller whose module has chosen another queue, with NewQueue or UsePriorityQueue, keeps that queue.
//
// The queue of a controller is in a field of a type that has no exported name, as its reconciler is (see hasSupervisor).
// If a later version of controller-runtime has no such field, controllers keep the queue of controller-runtime.
type Queues struct {
	metrics *queue.Metrics
	// standard is the name of the function that makes the queue of a controller without NewQueue; empty if unknown. It is
	// the same for all types of requests, while the address of the function is not.
	standard string
}

// NewQueues returns the Queues of a hub.
func NewQueues() *Queues {
	q := &Queues{metrics: queue.NewMetrics(metrics.Registry)}
	yes := true
	reference, err := controller.NewUnmanaged("queue", controller.Options{
		SkipNameValidation: &yes,
		Reconciler: reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
			return ctrl.Result{}, nil
		}),
	})
	if err == nil {
		q.standard = functionName(fieldOf(reference, "NewQueue"))
	}
	return q
}

// replace replaces the queue of a controller that has not started. Only a supervised reconciler knows the type of the
// requests if that is not ctrl.Request.
func (q *Queues) replace(controller manager.Runnable) {
	field := fieldOf(controller, "NewQueue")
	if q == nil || q.standard == "" || functionName(field) != q.standard || !field.CanSet() {
		return
	}
	if s, ok := reconcilerOf(controller).(supervisedReconciler); ok {
		s.replaceQueue(field, q.metrics)
		return
	}
	replaceQueue[ctrl.Request](field, q.metrics)
}

// functionName returns the name of a function, or "" if the value is none.
func functionName(v reflect.Value) string {
	if v.Kind() != reflect.Func || v.IsNil() {
		return ""
	}
	f := runtime.FuncForPC(v.Pointer())
	if f == nil {
		return ""
	}
	return f.Name()
}

// replaceQueue replaces the function in a field, unless its requests are of another type. Whether UsePriorityQueue is set
// shows only in the queue that the function makes. So the function is called when the controller starts, and a priority
// queue of controller-runtime is shut down at once.
func replaceQueue[request comparable](field reflect.Value, m *queue.Metrics) {
	type newQueue = func(string, workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request]
	standard, ok := field.Interface().(newQueue)
	if !ok {
		return
	}
	field.Set(reflect.ValueOf(func(
		name string, limiter workqueue.TypedRateLimiter[request],
	) workqueue.TypedRateLimitingInterface[request] {
		chosen := standard(name, limiter)
		if _, prioritized := chosen.(priorityqueue.PriorityQueue[request]); !prioritized {
			return chosen
		}
		chosen.ShutDown()
		return queue.New(name, limiter, m)
	}))
}
