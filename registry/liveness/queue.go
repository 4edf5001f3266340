// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"reflect"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// NewQueue makes the queue of a controller, as in controller.TypedOptions.
type NewQueue[request comparable] = func(string, workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request]

// heartbeatName: no object can have the slash.
const heartbeatName = "clusterfx.dev/heartbeat"

// Request returns the heartbeat of a controller of objects.
func Request() reconcile.Request {
	var r reconcile.Request
	r.Name = heartbeatName
	return r
}

// Queue makes the queue of a controller whose progress the monitor watches. heartbeat must be a request that no source
// makes; the reconciler does not see it.
func Queue[request comparable](m *Monitor, s Subject, heartbeat request) NewQueue[request] {
	return Wrap(m, s, heartbeat, func(
		name string, limiter workqueue.TypedRateLimiter[request],
	) workqueue.TypedRateLimitingInterface[request] {
		return priorityqueue.New(name, func(o *priorityqueue.Opts[request]) { o.RateLimiter = limiter })
	})
}

// Attach applies Queue to a built controller before its start, and reports whether it could: whether this is a
// controller of controller-runtime for requests of heartbeat's type. It sets a field of an unexported type, since there
// is no method.
func Attach[request comparable](m *Monitor, s Subject, controller manager.Runnable, heartbeat request) bool {
	v := reflect.Indirect(reflect.ValueOf(controller))
	if v.Kind() != reflect.Struct {
		return false
	}
	field := v.FieldByName("NewQueue")
	if !field.IsValid() || !field.CanSet() {
		return false
	}
	inner, ok := field.Interface().(NewQueue[request])
	if !ok || inner == nil {
		return false
	}
	field.Set(reflect.ValueOf(Wrap(m, s, heartbeat, inner)))
	return true
}

// Wrap is Queue for a controller whose queue inner makes.
func Wrap[request comparable](m *Monitor, s Subject, heartbeat request, inner NewQueue[request]) NewQueue[request] {
	return func(name string, limiter workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
		queue := inner(name, limiter)
		w := &workers{monitor: m, subject: s}
		if prioritized, ok := queue.(priorityqueue.PriorityQueue[request]); ok {
			w.ask = func(*Heart) {
				priority := heartbeatPriority
				prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, heartbeat)
			}
			return &priorityQueue[request]{PriorityQueue: prioritized, workers: w, heartbeat: heartbeat}
		}
		w.ask = func(*Heart) { queue.Add(heartbeat) }
		return &plainQueue[request]{TypedRateLimitingInterface: queue, workers: w, heartbeat: heartbeat}
	}
}

const heartbeatPriority = 1000

type workers struct {
	monitor *Monitor
	subject Subject
	ask     func(*Heart)

	mu    sync.Mutex // protects the fields
	heart *Heart     // nil before the first worker has come
	over  bool
}

func (w *workers) came() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heart == nil && !w.over {
		w.heart = w.monitor.Watch(w.subject, w.ask)
	}
	w.heart.Beat()
}

func (w *workers) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.heart.Stop()
}

// priorityQueue keeps heartbeats to itself, as does plainQueue.
type priorityQueue[request comparable] struct {
	priorityqueue.PriorityQueue[request]
	workers   *workers
	heartbeat request
}

func (q *priorityQueue[request]) GetWithPriority() (item request, priority int, shutdown bool) {
	for {
		q.workers.came()
		item, priority, shutdown = q.PriorityQueue.GetWithPriority()
		if shutdown || item != q.heartbeat {
			return item, priority, shutdown
		}
		q.Done(item)
	}
}

func (q *priorityQueue[request]) Get() (item request, shutdown bool) {
	item, _, shutdown = q.GetWithPriority()
	return item, shutdown
}

func (q *priorityQueue[request]) ShutDown() {
	q.workers.leave()
	q.PriorityQueue.ShutDown()
}

func (q *priorityQueue[request]) ShutDownWithDrain() {
	q.workers.leave()
	q.PriorityQueue.ShutDownWithDrain()
}

type plainQueue[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]
	workers   *workers
	heartbeat request
}

func (q *plainQueue[request]) Get() (item request, shutdown bool) {
	for {
		q.workers.came()
		item, shutdown = q.TypedRateLimitingInterface.Get()
		if shutdown || item != q.heartbeat {
			return item, shutdown
		}
		q.Done(item)
	}
}

func (q *plainQueue[request]) ShutDown() {
	q.workers.leave()
	q.TypedRateLimitingInterface.ShutDown()
}

func (q *plainQueue[request]) ShutDownWithDrain() {
	q.workers.leave()
	q.TypedRateLimitingInterface.ShutDownWithDrain()
}
