// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Queue is the work queue of the controllers of modules: a priorityqueue.PriorityQueue without goroutines, and with a timer
// only while an item is delayed, since a hub has thousands of them, mostly idle. It has the rules and metrics of
// controller-runtime's:
//
//   - It contains an item once, with the highest of its priorities and the earliest of its times.
//   - Get returns the ready item of the highest priority, the first that was added. A rise moves an item to the end of
//     its new priority. A delayed item counts as added when its delay ends. Of a fair queue, Get takes from lanes in turn.
//   - An item in work, between Get and Done, is not returned by another Get. If added meanwhile, it is returned after
//     Done.
//
// Other than in controller-runtime: the rate limiter, which is code of a module, is called without a lock and before
// AddWithOpts returns. ShutDown drops the items, so that metrics do not count them, and may be called again. Items are
// not logged at level 5. unfinished_work_seconds and longest_running_processor_seconds are the sum and the longest of
// all queues of a name, in all apps, which would overwrite each other.
type Queue[T comparable] struct {
	limiter workqueue.TypedRateLimiter[T]
	series  *series // nil without metrics
	base    time.Time

	mu       sync.Mutex // protects the fields below
	changed  sync.Cond  // an item is ready, or the queue has shut down
	items    map[T]*item[T]
	ready    lanes[T]
	delayed  items[T]
	most     int           // items since the last shrink
	aside    int           // the number of items there
	added    uint64        // counts up, to keep the order
	timer    *time.Timer   // nil while no item is delayed
	rings    time.Duration // the time that the timer is set for
	done     map[T]int     // how often each item was done, of a counted queue; nil for others
	target   int           // how often each has to be
	shutDown bool
}

// NewQueue returns the queue of a controller; m may be nil.
func NewQueue[T comparable](name string, limiter workqueue.TypedRateLimiter[T], m *QueueMetrics) *Queue[T] {
	q := NewFairQueue(limiter, func(T) string { return "" }, func(string) int { return 1 })
	if m != nil && name != "" {
		q.series, q.base = m.of(name), m.base
	}
	return q
}

// NewFairQueue returns a queue without metrics that takes from lanes in turn, as many items as the lane's weight and at least
// one. An item is in the lane of its key, or of AddFrom. Both functions are called with a lock held.
func NewFairQueue[T comparable](limiter workqueue.TypedRateLimiter[T], laneOf func(T) string, weight func(lane string) int) *Queue[T] {
	q := &Queue[T]{limiter: limiter, items: map[T]*item[T]{}, base: time.Now()}
	q.changed.L = &q.mu
	q.ready = lanes[T]{laneOf: laneOf, weight: weight, all: map[string]*lane[T]{}}
	q.delayed.earlier = earlierInTime[T]
	return q
}

// AddFrom adds items to a lane. It moves none there, but for the lane of their keys.
func (q *Queue[T]) AddFrom(lane string, priority *int, keys ...T) {
	for _, key := range keys {
		q.add(key, lane, priority, 0)
	}
}

// AddWithOpts adds items with controller-runtime's options: of two delays the shorter counts, and 0 is none.
func (q *Queue[T]) AddWithOpts(o priorityqueue.AddOpts, keys ...T) {
	for _, key := range keys {
		after := o.After
		if o.RateLimited {
			if q.ShuttingDown() {
				return
			}
			if wait := q.limiter.When(key); after == 0 || wait < after {
				after = wait
			}
		}
		q.add(key, q.ready.laneOf(key), o.Priority, after)
	}
}

func (q *Queue[T]) add(key T, lane string, priority *int, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(key, lane, ptr.Deref(priority, 0), after)
}

// put needs the lock.
func (q *Queue[T]) put(key T, lane string, priority int, after time.Duration) {
	if q.shutDown {
		return
	}
	if after > 0 {
		q.series.retried()
	}
	i := q.items[key]
	if i == nil {
		i = &item[T]{key: key}
		q.items[key] = i
		q.most = max(q.most, len(q.items))
	}
	if i.place != nowhere {
		if after <= 0 && lane == q.ready.laneOf(key) {
			q.move(i, lane)
		}
		q.raise(i, priority)
		q.hasten(i, after)
		return
	}
	i.lane, i.priority, i.order = lane, priority, q.next()
	if after > 0 {
		i.place, i.at = delayed, q.in(after)
		heap.Push(&q.delayed, i)
		q.arm()
		return
	}
	q.makeReady(i)
}

func (q *Queue[T]) next() uint64 {
	q.added++
	return q.added
}

func (q *Queue[T]) now() time.Duration { return time.Since(q.base) }

// in returns the last of all times for a delay that is too long.
func (q *Queue[T]) in(after time.Duration) time.Duration {
	now := q.now()
	return now + min(after, math.MaxInt64-now)
}

func (q *Queue[T]) move(i *item[T], lane string) {
	if i.lane == lane {
		return
	}
	if i.place == ready {
		q.ready.remove(i)
		defer q.ready.push(i)
	}
	i.lane = lane
}

func (q *Queue[T]) raise(i *item[T], priority int) {
	if priority <= i.priority {
		return
	}
	if i.place != delayed {
		q.series.deepen(i.priority, -1)
		q.series.deepen(priority, 1)
	}
	i.priority, i.order = priority, q.next()
	switch i.place {
	case ready:
		q.ready.fix(i)
	case delayed:
		heap.Fix(&q.delayed, i.index)
	}
}

func (q *Queue[T]) hasten(i *item[T], after time.Duration) {
	if i.place != delayed {
		return
	}
	if after <= 0 {
		heap.Remove(&q.delayed, i.index)
		q.makeReady(i)
	} else if at := q.in(after); at < i.at {
		i.at = at
		heap.Fix(&q.delayed, i.index)
	}
	q.arm()
}

// makeReady takes an item that is in no heap.
func (q *Queue[T]) makeReady(i *item[T]) {
	i.since = q.now()
	q.series.added(i.priority)
	if i.inWork {
		i.place = aside
		q.aside++
		return
	}
	q.offer(i)
}

func (q *Queue[T]) offer(i *item[T]) {
	i.place = ready
	q.ready.push(i)
	q.changed.Signal()
}

func (q *Queue[T]) arm() {
	if q.delayed.Len() == 0 {
		q.stopTimer()
		return
	}
	first := q.delayed.list[0].at
	switch wait := first - q.now(); {
	case q.timer == nil:
		q.timer = time.AfterFunc(wait, q.release)
	case q.rings != first:
		q.timer.Reset(wait)
	}
	q.rings = first
}

func (q *Queue[T]) stopTimer() {
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

// release is the timer's function.
func (q *Queue[T]) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutDown {
		return
	}
	now := q.now()
	for q.delayed.Len() > 0 && q.delayed.list[0].at <= now {
		i, _ := heap.Pop(&q.delayed).(*item[T])
		i.order = q.next()
		q.makeReady(i)
	}
	q.rings = -1 // the timer is not set
	q.arm()
}

// GetWithPriority returns the next item and its priority. It blocks until an item is ready or the queue shuts down.
func (q *Queue[T]) GetWithPriority() (key T, priority int, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ready.size == 0 && !q.shutDown {
		q.changed.Wait()
	}
	if q.shutDown {
		return key, 0, true
	}
	i := q.ready.pop()
	i.place, i.inWork = nowhere, true
	if q.series != nil {
		now := q.now()
		q.series.began(&i.work, now, now-i.since, i.priority)
	}
	return i.key, i.priority, false
}

// Done reports that the work on an item has ended.
func (q *Queue[T]) Done(key T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.items[key]
	if i == nil || !i.inWork {
		return
	}
	i.inWork = false
	if q.series != nil {
		q.series.ended(&i.work, q.now())
	}
	switch i.place {
	case aside:
		q.aside--
		q.offer(i)
	case nowhere:
		delete(q.items, key)
		q.shrink()
	}
	q.countDone(key)
}

// burst items may have waited without a reason to free memory.
const burst = 64

// shrink frees the memory of a burst when the queue is empty. Maps and slices do not shrink, and the first list of a
// kind puts all its objects into the queue.
func (q *Queue[T]) shrink() {
	if len(q.items) == 0 && q.most > burst {
		q.items, q.delayed.list, q.most = map[T]*item[T]{}, nil, 0
		q.ready.clear()
	}
}

// ShutDown drops the items, accepts no others, and lets all calls of Get return.
func (q *Queue[T]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutDown {
		return
	}
	q.shutDown = true
	q.stopTimer()
	for key, i := range q.items {
		q.drop(key, i)
	}
	q.delayed.list, q.aside = nil, 0
	q.ready.clear()
	q.changed.Broadcast()
}

// drop keeps an item in work for Done.
func (q *Queue[T]) drop(key T, i *item[T]) {
	if i.place == ready || i.place == aside {
		q.series.deepen(i.priority, -1)
	}
	i.place = nowhere
	if !i.inWork {
		delete(q.items, key)
		return
	}
	q.series.abandoned(&i.work)
}

// ShutDownWithDrain is ShutDown: like controller-runtime's, it does not wait for items in work.
func (q *Queue[T]) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown reports whether ShutDown was called.
func (q *Queue[T]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shutDown
}

// Len counts ready items, and those that wait for the end of the work on them.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.size + q.aside
}

// Get is GetWithPriority without the priority.
func (q *Queue[T]) Get() (key T, shutdown bool) {
	key, _, shutdown = q.GetWithPriority()
	return key, shutdown
}

// Add adds an item.
func (q *Queue[T]) Add(key T) { q.AddAfter(key, 0) }

// AddAfter adds an item after a delay.
func (q *Queue[T]) AddAfter(key T, after time.Duration) { q.add(key, q.ready.laneOf(key), nil, after) }

// AddRateLimited adds an item after the delay of the rate limiter.
func (q *Queue[T]) AddRateLimited(key T) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, key)
}

// Forget makes the rate limiter forget the failures of an item.
func (q *Queue[T]) Forget(key T) { q.limiter.Forget(key) }

// NumRequeues returns how often the rate limiter has delayed an item since Forget.
func (q *Queue[T]) NumRequeues(key T) int { return q.limiter.NumRequeues(key) }
