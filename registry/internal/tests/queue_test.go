// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

var _ priorityqueue.PriorityQueue[string] = (*contain.Queue[string])(nil)

// Each case fills a queue, and then all items that are ready are taken.
func TestQueue_Order(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		fill func(q *contain.Queue[string])
		want []string
	}{
		"the first that was added is first": {
			func(q *contain.Queue[string]) { q.AddWithOpts(priorityqueue.AddOpts{}, "a", "b"); q.Add("c") },
			[]string{"a", "b", "c"},
		},
		"an item is contained once, at its first place": {
			func(q *contain.Queue[string]) { q.Add("a"); q.Add("b"); q.Add("a") },
			[]string{"a", "b"},
		},
		"the highest priority is first": {
			func(q *contain.Queue[string]) {
				q.AddWithOpts(withPriority(-1), "a")
				q.Add("b")
				q.AddWithOpts(withPriority(1), "c")
			},
			[]string{"c", "b", "a"},
		},
		"the highest of the priorities of an item counts": {
			func(q *contain.Queue[string]) {
				q.AddWithOpts(withPriority(2), "a")
				q.AddWithOpts(withPriority(1), "b")
				q.Add("a")
			},
			[]string{"a", "b"},
		},
		"a rise of the priority moves an item to the end of the priority": {
			func(q *contain.Queue[string]) {
				q.Add("a")
				q.AddWithOpts(withPriority(1), "b")
				q.AddWithOpts(withPriority(1), "a")
			},
			[]string{"b", "a"},
		},
		"a delayed item is not ready": {
			func(q *contain.Queue[string]) { q.AddAfter("a", time.Second); q.Add("b") },
			[]string{"b"},
		},
		"a delay of 0 or less is none": {
			func(q *contain.Queue[string]) { q.AddAfter("a", 0); q.AddAfter("b", -time.Second) },
			[]string{"a", "b"},
		},
		"an item that is added without a delay is no longer delayed": {
			func(q *contain.Queue[string]) { q.AddAfter("a", time.Second); q.Add("a") },
			[]string{"a"},
		},
		"a ready item does not become delayed": {
			func(q *contain.Queue[string]) { q.Add("a"); q.AddAfter("a", time.Second); q.AddRateLimited("a") },
			[]string{"a"},
		},
		"a delayed item keeps its priority when it becomes ready": {
			func(q *contain.Queue[string]) {
				one := 1
				q.AddWithOpts(priorityqueue.AddOpts{After: time.Second, Priority: &one}, "a")
				q.Add("b")
				q.Add("a")
			},
			[]string{"a", "b"},
		},
		"a delayed item counts as added when its delay ends": {
			func(q *contain.Queue[string]) {
				q.AddAfter("a", 2*time.Second)
				q.AddAfter("b", time.Second)
				q.Add("c")
				<-time.After(2 * time.Second)
				synctest.Wait()
				q.Add("d")
			},
			[]string{"c", "b", "a", "d"},
		},
		"of items whose delays end at once, the highest priority is first": {
			func(q *contain.Queue[string]) {
				one := 1
				q.AddAfter("a", time.Second)
				q.AddWithOpts(priorityqueue.AddOpts{After: time.Second, Priority: &one}, "b")
				<-time.After(time.Second)
				synctest.Wait()
			},
			[]string{"b", "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				one.fill(q)
				testkit.Equal(t, take(t, q, q.Len()), one.want, "items")
			})
		})
	}
}

// Each case adds the item a, and says after which time the item is ready, in seconds.
func TestQueue_Delay(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		add  func(q *contain.Queue[string])
		want float64
	}{
		"AddAfter":            {func(q *contain.Queue[string]) { q.AddAfter("a", 5*time.Second) }, 5},
		"the earliest counts": {func(q *contain.Queue[string]) { q.AddAfter("a", 5*time.Second); q.AddAfter("a", 3*time.Second) }, 3},
		"a later one is ignored": {
			func(q *contain.Queue[string]) { q.AddAfter("a", 3*time.Second); q.AddAfter("a", 5*time.Second) }, 3,
		},
		"times count, and not delays": {
			func(q *contain.Queue[string]) {
				q.AddAfter("a", 3*time.Second)
				<-time.After(2 * time.Second)
				q.AddAfter("a", 2*time.Second)
			}, 3,
		},
		"of another item": {
			func(q *contain.Queue[string]) { q.AddAfter("b", time.Hour); q.AddAfter("a", 3*time.Second) }, 3,
		},
		"after the longest of all delays": {
			func(q *contain.Queue[string]) { q.AddAfter("b", math.MaxInt64); q.AddAfter("a", 3*time.Second) }, 3,
		},
		"AddRateLimited": {func(q *contain.Queue[string]) { q.AddRateLimited("a") }, 1},
		"the limiter counts failures": {
			func(q *contain.Queue[string]) {
				q.AddRateLimited("b")
				q.AddRateLimited("a")
				<-time.After(time.Second)
				synctest.Wait()
				take(t, q, 2)
				q.Done("a")
				q.AddRateLimited("a")
			}, 3,
		},
		"Forget": {
			func(q *contain.Queue[string]) {
				q.AddRateLimited("a")
				<-time.After(time.Second)
				synctest.Wait()
				take(t, q, 1)
				q.Done("a")
				q.Forget("a")
				q.AddRateLimited("a")
			}, 2,
		},
		"a shorter delay than that of the limiter": {
			func(q *contain.Queue[string]) {
				q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, After: 100 * time.Millisecond}, "a")
			}, 0.1,
		},
		"a longer delay than that of the limiter": {
			func(q *contain.Queue[string]) {
				q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, After: time.Minute}, "a")
			}, 1,
		},
		"while in work": {
			func(q *contain.Queue[string]) { q.Add("a"); take(t, q, 1); q.AddAfter("a", 2*time.Second); q.Done("a") }, 2,
		},
		"in work until after the delay": {
			func(q *contain.Queue[string]) {
				q.Add("a")
				take(t, q, 1)
				q.AddAfter("a", time.Second)
				time.AfterFunc(4*time.Second, func() { q.Done("a") })
			}, 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, began := newQueue(t), time.Now()
				one.add(q)
				testkit.Equal(t, take(t, q, 1)[0], "a", "Get")
				if got := time.Since(began).Seconds(); got != one.want {
					t.Errorf("delay: got %v s, want %v s", got, one.want)
				}
			})
		})
	}
}

// An item in work is not handed out again, but may be added, and is handed out after Done with the place in the order
// that it has had meanwhile.
func TestQueue_InWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.Add("a")
		take(t, q, 1)
		q.Add("a")
		q.AddWithOpts(withPriority(-1), "a")
		q.Add("b")
		q.Add("c")
		testkit.Equal(t, q.Len(), 3, "Len with an item in work")
		testkit.Equal(t, take(t, q, 1)[0], "b", "Get while a is in work")
		q.AddWithOpts(withPriority(7), "b")
		q.Done("a")
		q.Done("b")
		q.Done("b")
		q.Done("unknown")
		if key, priority, _ := q.GetWithPriority(); key != "b" || priority != 7 {
			t.Errorf("Get: got %q with priority %d, want b with 7", key, priority)
		}
		testkit.Equal(t, take(t, q, 2), []string{"a", "c"}, "items after Done")
		testkit.Equal(t, q.Len(), 0, "Len")
	})
}

// The end of the work on an item wakes a worker that waits for it.
func TestQueue_DoneWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.Add("a")
		take(t, q, 1)
		q.Add("a")
		got := make(chan string, 1)
		go func() {
			key, _ := q.Get()
			got <- key
		}()
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("Get returned an item in work")
		}
		q.Done("a")
		testkit.Equal(t, <-got, "a", "Get")
	})
}

// A burst of items does not change what the queue does after it.
func TestQueue_AfterBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		for range 3 {
			for n := range 1000 {
				q.Add(string(rune('a' + n)))
				q.AddAfter(string(rune('a'+1000+n)), time.Second)
			}
			<-time.After(time.Second)
			synctest.Wait()
			for _, key := range take(t, q, 2000) {
				q.Done(key)
			}
			q.Add("once")
			testkit.Equal(t, take(t, q, q.Len()), []string{"once"}, "items after a burst")
			q.Done("once")
		}
	})
}

// ShutDown ends all calls of Get, and may be called more than once. The queue drops its items and accepts no others.
func TestQueue_ShutDown(t *testing.T) {
	t.Parallel()
	for name, shutDown := range map[string]func(*contain.Queue[string]){
		"ShutDown":          (*contain.Queue[string]).ShutDown,
		"ShutDownWithDrain": (*contain.Queue[string]).ShutDownWithDrain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				q.Add("in work")
				take(t, q, 1)
				ended := make(chan bool, 3)
				for range cap(ended) {
					go func() {
						key, priority, shutdown := q.GetWithPriority()
						ended <- key == "" && priority == 0 && shutdown
					}()
				}
				q.AddAfter("delayed", time.Hour)
				q.Add("in work")
				synctest.Wait()
				if q.ShuttingDown() {
					t.Error("ShuttingDown before ShutDown")
				}
				shutDown(q)
				shutDown(q)
				for range cap(ended) {
					if !<-ended {
						t.Error("Get has not returned zero values and the shutdown")
					}
				}
				q.Add("late")
				q.AddAfter("late", time.Second)
				q.AddRateLimited("late")
				q.Done("in work")
				testkit.Equal(t, q.NumRequeues("late"), 0, "calls of the rate limiter after ShutDown")
				if !q.ShuttingDown() || q.Len() != 0 {
					t.Errorf("ShuttingDown, Len: got %v, %d, want true, 0", q.ShuttingDown(), q.Len())
				}
				if key, shutdown := q.Get(); key != "" || !shutdown {
					t.Errorf("Get: got %q, %v", key, shutdown)
				}
			})
		})
	}
}

// reentrant is a rate limiter that uses its queue.
type reentrant struct {
	workqueue.TypedRateLimiter[string]
	queue *contain.Queue[string]
}

func (r *reentrant) When(key string) time.Duration {
	r.queue.Add("by the limiter")
	return r.TypedRateLimiter.When(key)
}

// The rate limiter is called without a lock.
func TestQueue_LimiterIsCalledWithoutLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &reentrant{TypedRateLimiter: newLimiter()}
		l.queue = contain.NewQueue("test", l, nil)
		defer l.queue.ShutDown()
		l.queue.AddRateLimited("a")
		testkit.Equal(t, take(t, l.queue, 2), []string{"by the limiter", "a"}, "items")
		testkit.Equal(t, l.queue.NumRequeues("a"), 1, "NumRequeues")
	})
}
