// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/clusterfx/clusterfx/registry/state"
)

// NewQueue returns a queue for controller.TypedOptions.NewQueue that takes from remotes in turn: within a remote the
// highest priority first, then the oldest. So a hundred thousand requests of one delay another by one turn. The remote
// whose event made a request counts, also for an object of the hub (OwnsRemote); the hub's own objects count as one
// more.
//
// weight returns how many requests a remote may have in a turn; nil means one. It is called with a lock held, so it
// must return at once and must not use the queue.
func NewQueue(
	weight func(state.ClusterName) int,
) func(controllerName string, limiter workqueue.TypedRateLimiter[Request]) workqueue.TypedRateLimitingInterface[Request] {
	if weight == nil {
		weight = func(state.ClusterName) int { return 1 }
	}
	return func(_ string, limiter workqueue.TypedRateLimiter[Request]) workqueue.TypedRateLimitingInterface[Request] {
		return newQueue(weight, limiter)
	}
}

// queue has a lane for each remote, and controller-runtime's rules: a request is in it once, with the highest priority
// and earliest time that it was added with, and not handed out again before Done.
type queue struct {
	weight  func(state.ClusterName) int
	limiter workqueue.TypedRateLimiter[Request]

	mu       sync.Mutex // protects the fields below
	changed  *sync.Cond // a request is ready or done, or the queue shuts down
	items    map[Request]*item
	lanes    map[state.ClusterName]*lane
	turns    []*lane // the lanes with ready requests, beginning with the current lane
	delayed  byTime
	working  map[Request]bool // handed out; true if it was added again meanwhile
	added    int64            // counts up, to keep the order
	ready    int
	timer    *time.Timer
	shutDown bool
}

var _ priorityqueue.PriorityQueue[Request] = (*queue)(nil)

// item waits in delayed for its time, or in a lane for its turn.
type item struct {
	request  Request
	lane     state.ClusterName // the remote that caused the request, which may differ from the remote in the request
	priority int
	at       time.Time // the time at which it becomes ready; zero in a lane
	order    int64
	index    int // in the heap that it is in
}

// lane has the ready requests of one remote.
type lane struct {
	cluster state.ClusterName
	items   byPriority
	left    int // of its turn
}

func newQueue(weight func(state.ClusterName) int, limiter workqueue.TypedRateLimiter[Request]) *queue {
	q := &queue{
		weight: weight, limiter: limiter,
		items: map[Request]*item{}, lanes: map[state.ClusterName]*lane{}, working: map[Request]bool{},
	}
	q.changed = sync.NewCond(&q.mu)
	return q
}

func (q *queue) addFrom(origin state.ClusterName, priority *int, requests ...Request) {
	p := 0
	if priority != nil {
		p = *priority
	}
	for _, r := range requests {
		q.addTo(origin, r, p, 0)
	}
}

func (q *queue) AddWithOpts(o priorityqueue.AddOpts, requests ...Request) {
	for _, r := range requests {
		after, priority := o.After, 0
		if o.RateLimited {
			if wait := q.limiter.When(r); after == 0 || wait < after {
				after = wait
			}
		}
		if o.Priority != nil {
			priority = *o.Priority
		}
		q.add(r, priority, after)
	}
}

func (q *queue) add(r Request, priority int, after time.Duration) {
	q.addTo(r.Cluster, r, priority, after)
}

func (q *queue) addTo(in state.ClusterName, r Request, priority int, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutDown {
		return
	}
	known := q.items[r]
	if known == nil {
		known = &item{request: r, lane: in, priority: priority, order: q.next()}
		q.items[r] = known
		q.place(known, after)
		return
	}
	if in == r.Cluster && known.lane != in && after <= 0 {
		q.move(known, in) // caused by its own remote now, it no longer waits in the lane of another remote
	}
	if priority > known.priority {
		known.priority, known.order = priority, q.next()
		if known.at.IsZero() && !q.isHeldBack(known) {
			heap.Fix(&q.lanes[known.lane].items, known.index)
		}
	}
	if !known.at.IsZero() && time.Now().Add(after).Before(known.at) {
		heap.Remove(&q.delayed, known.index)
		q.place(known, after)
	}
}

func (q *queue) move(i *item, to state.ClusterName) {
	from := q.lanes[i.lane]
	i.lane = to
	if !i.at.IsZero() || q.isHeldBack(i) {
		return
	}
	heap.Remove(&from.items, i.index)
	q.ready--
	if len(from.items) == 0 {
		q.turns = slices.DeleteFunc(q.turns, func(l *lane) bool { return l == from })
		delete(q.lanes, from.cluster)
	}
	q.place(i, 0)
}

func (q *queue) next() int64 {
	q.added++
	return q.added
}

// isHeldBack: a ready item waits for the end of the work on its request.
func (q *queue) isHeldBack(i *item) bool { return q.working[i.request] }

func (q *queue) place(i *item, after time.Duration) {
	if after > 0 {
		i.at = time.Now().Add(after)
		heap.Push(&q.delayed, i)
		q.arm()
		return
	}
	i.at = time.Time{}
	if _, inWork := q.working[i.request]; inWork {
		q.working[i.request] = true
		return
	}
	l := q.lanes[i.lane]
	if l == nil {
		l = &lane{cluster: i.lane}
		q.lanes[i.lane] = l
	}
	if len(l.items) == 0 {
		l.left = max(q.weight(l.cluster), 1)
		q.turns = append(q.turns, l)
	}
	heap.Push(&l.items, i)
	q.ready++
	q.changed.Signal()
}

func (q *queue) arm() {
	if len(q.delayed) == 0 {
		return
	}
	wait := time.Until(q.delayed[0].at)
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.release)
		return
	}
	q.timer.Reset(wait)
}

func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutDown {
		return
	}
	for len(q.delayed) > 0 && !q.delayed[0].at.After(time.Now()) {
		i, _ := heap.Pop(&q.delayed).(*item)
		i.order = q.next() // it counts from when it is ready, not from when it was added
		q.place(i, 0)
	}
	q.arm()
}

// GetWithPriority blocks until a request has its turn or the queue is shut down.
func (q *queue) GetWithPriority() (r Request, priority int, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.turns) == 0 && !q.shutDown {
		q.changed.Wait()
	}
	if q.shutDown {
		return Request{}, 0, true
	}
	l := q.turns[0]
	i, _ := heap.Pop(&l.items).(*item)
	q.ready--
	l.left--
	q.pass(l)
	delete(q.items, i.request)
	q.working[i.request] = false
	return i.request, i.priority, false
}

func (q *queue) pass(l *lane) {
	switch {
	case len(l.items) == 0:
		q.turns = q.turns[1:]
		delete(q.lanes, l.cluster)
	case l.left <= 0:
		l.left = max(q.weight(l.cluster), 1)
		q.turns = append(q.turns[1:], l)
	}
}

func (q *queue) Done(r Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	again := q.working[r]
	delete(q.working, r)
	if i := q.items[r]; again && i != nil {
		q.place(i, 0)
	}
	q.changed.Broadcast()
}

func (q *queue) Get() (r Request, shutdown bool) {
	r, _, shutdown = q.GetWithPriority()
	return r, shutdown
}

func (q *queue) Add(r Request) { q.add(r, 0, 0) }

func (q *queue) AddAfter(r Request, after time.Duration) { q.add(r, 0, after) }

func (q *queue) AddRateLimited(r Request) { q.add(r, 0, q.limiter.When(r)) }

func (q *queue) Forget(r Request) { q.limiter.Forget(r) }

func (q *queue) NumRequeues(r Request) int { return q.limiter.NumRequeues(r) }

func (q *queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready
}

func (q *queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shutDown = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.changed.Broadcast()
}

func (q *queue) ShutDownWithDrain() {
	q.ShutDown()
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.working) > 0 {
		q.changed.Wait()
	}
}

func (q *queue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shutDown
}

// Highest priority first, then the oldest.
type byPriority []*item

func (b byPriority) Len() int { return len(b) }
func (b byPriority) Less(i, j int) bool {
	if b[i].priority != b[j].priority {
		return b[i].priority > b[j].priority
	}
	return b[i].order < b[j].order
}

func (b byPriority) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

func (b *byPriority) Push(x any) {
	i, _ := x.(*item)
	i.index = len(*b)
	*b = append(*b, i)
}

func (b *byPriority) Pop() any { return pop((*[]*item)(b)) }

type byTime []*item

func (b byTime) Len() int           { return len(b) }
func (b byTime) Less(i, j int) bool { return b[i].at.Before(b[j].at) }
func (b byTime) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

func (b *byTime) Push(x any) {
	i, _ := x.(*item)
	i.index = len(*b)
	*b = append(*b, i)
}

func (b *byTime) Pop() any { return pop((*[]*item)(b)) }

func pop(items *[]*item) *item {
	last := len(*items) - 1
	i := (*items)[last]
	(*items)[last] = nil
	*items = (*items)[:last]
	return i
}
