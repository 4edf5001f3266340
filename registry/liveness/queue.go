// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// NewQueue makes the queue of a controller, as in controller.TypedOptions.
type NewQueue[request comparable] = func(string, workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request]

// Queue makes the queue of a controller whose progress the monitor watches.
func Queue[request comparable](m *Monitor, s Subject) NewQueue[request] {
	return Wrap(m, s, func(
		name string, limiter workqueue.TypedRateLimiter[request],
	) workqueue.TypedRateLimitingInterface[request] {
		return priorityqueue.New(name, func(o *priorityqueue.Opts[request]) { o.RateLimiter = limiter })
	})
}

// Wrap is Queue for a controller whose queue inner makes. A queue without priorities is not watched.
func Wrap[request comparable](m *Monitor, s Subject, inner NewQueue[request]) NewQueue[request] {
	return func(name string, limiter workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
		queue := inner(name, limiter)
		prioritized, ok := queue.(priorityqueue.PriorityQueue[request])
		if m == nil || !ok {
			return queue
		}
		return &watchedQueue[request]{PriorityQueue: prioritized, workers: &workers{monitor: m, subject: s, length: prioritized.Len}}
	}
}

// workers are those of one controller. They are watched from the first request for work until the queue is shut down.
type workers struct {
	monitor *Monitor
	subject Subject
	length  func() int

	begin   sync.Once
	free    atomic.Int64 // workers that wait for work
	asked   atomic.Int64 // when a worker was last free, by the monitor's clock
	waits   atomic.Bool  // work did, at the last look
	looking atomic.Bool
}

func (w *workers) ask() {
	w.free.Add(1) // First: a controller that begins is not stuck.
	w.begin.Do(func() {
		w.monitor.mu.Lock()
		defer w.monitor.mu.Unlock()
		w.monitor.watched[w] = struct{}{}
	})
}

func (w *workers) take() {
	w.asked.Store(int64(w.monitor.awake()))
	w.free.Add(-1)
}

func (w *workers) end() {
	w.begin.Do(func() {})
	w.monitor.mu.Lock()
	defer w.monitor.mu.Unlock()
	delete(w.monitor.watched, w)
}

func (w *workers) isStuck(latest time.Duration) bool {
	return w.free.Load() == 0 && w.waits.Load() && time.Duration(w.asked.Load()) <= latest
}

// look calls a function that may be a module's in a goroutine of its own, one at a time.
func (w *workers) look() {
	if !w.looking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer w.looking.Store(false)
		defer func() {
			if r := recover(); r != nil {
				w.monitor.log.Error(fmt.Errorf("panic: %v", r), "Failed to read the length of a queue", "stack", string(debug.Stack()))
			}
		}()
		w.waits.Store(w.length() > 0)
	}()
}

type watchedQueue[request comparable] struct {
	priorityqueue.PriorityQueue[request]
	workers *workers
}

func (q *watchedQueue[request]) GetWithPriority() (item request, priority int, shutdown bool) {
	q.workers.ask()
	defer q.workers.take()
	return q.PriorityQueue.GetWithPriority()
}

func (q *watchedQueue[request]) Get() (item request, shutdown bool) {
	item, _, shutdown = q.GetWithPriority()
	return item, shutdown
}

// AddFrom is that of a fair queue; in another queue there are no lanes.
func (q *watchedQueue[request]) AddFrom(lane string, priority *int, keys ...request) {
	fair, ok := q.PriorityQueue.(interface {
		AddFrom(lane string, priority *int, keys ...request)
	})
	if !ok {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: priority}, keys...)
		return
	}
	fair.AddFrom(lane, priority, keys...)
}

func (q *watchedQueue[request]) ShutDown() {
	q.workers.end()
	q.PriorityQueue.ShutDown()
}

func (q *watchedQueue[request]) ShutDownWithDrain() {
	q.workers.end()
	q.PriorityQueue.ShutDownWithDrain()
}
