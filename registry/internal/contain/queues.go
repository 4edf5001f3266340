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
)

// Queues gives controllers a Queue, unless their module has chosen another with NewQueue or
// UsePriorityQueue. The queue is in a field of a type without an exported name (see hasSupervisor); if a later
// controller-runtime has none, its own queue stays.
type Queues struct {
	metrics *QueueMetrics
	// standard is the function that makes the queue without NewQueue, by name, since the name does not depend on the
	// type of requests; empty if unknown.
	standard string
}

// NewQueues returns the Queues of a hub.
func NewQueues() *Queues {
	q := &Queues{metrics: NewQueueMetrics(metrics.Registry)}
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

// replace needs a supervised reconciler if the requests are no ctrl.Requests: only that knows their type.
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

// replaceQueue does nothing for requests of another type. UsePriorityQueue shows only in the queue that the function
// makes, so the function is called at the start, and a priority queue is shut down at once.
func replaceQueue[request comparable](field reflect.Value, m *QueueMetrics) {
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
		return NewQueue(name, limiter, m)
	}))
}
