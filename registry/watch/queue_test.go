// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/state"
)

func limiter() workqueue.TypedRateLimiter[Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[Request](time.Second, time.Minute)
}

func fair() fairQueue {
	q, _ := NewQueue(nil)("", limiter()).(fairQueue)
	return q
}

func request(cluster, name string) Request {
	return Request{Cluster: state.ClusterName(cluster), NamespacedName: types.NamespacedName{Name: name}}
}

// drain takes n requests from a queue and marks each as done at once.
func drain(q fairQueue, n int) []string {
	var got []string
	for range n {
		r, _, _ := q.GetWithPriority()
		got = append(got, r.String())
		q.Done(r)
	}
	return got
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestQueue_RemotesTakeTurns(t *testing.T) {
	t.Parallel()
	q := fair()
	for i := range 3 {
		q.Add(request("noisy", fmt.Sprint(i)))
	}
	q.Add(request("quiet", "a"))
	q.Add(request("", "hub"))
	expect(t, drain(q, 5), "noisy//0", "quiet//a", "/hub", "noisy//1", "noisy//2")
}

// However many requests a remote has, another remote waits for only one of them.
func TestQueue_ANoisyRemote(t *testing.T) {
	t.Parallel()
	const events = 100_000
	q := fair()
	for i := range events {
		q.Add(request("noisy", fmt.Sprint(i)))
	}
	drain(q, 10)
	q.Add(request("quiet", "a"))
	if got := drain(q, 2); !slices.Contains(got, "quiet//a") {
		t.Errorf("got %q, want the request of the quiet remote among them", got)
	}
	testkit.Equal(t, q.Len(), events-11, "requests in the queue")
}

// Requests for objects of the hub wait in the lane of the remote that has caused them. A request that the hub has
// caused, too, does not wait in that lane.
func TestQueue_CausesHaveLanes(t *testing.T) {
	t.Parallel()
	watched, _ := liveness.Wrap(liveness.New(liveness.Options{}), liveness.Subject{}, NewQueue(nil))("", limiter()).(fairQueue)
	for name, q := range map[string]fairQueue{"alone": fair(), "watched": watched} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range 3 {
				q.AddFrom("noisy", nil, request("", fmt.Sprint("owner-", i)))
			}
			q.AddFrom("quiet", nil, request("", "owned"))
			q.Add(request("", "own"))
			expect(t, drain(q, 3), "/owner-0", "/owned", "/own")
			q.AddFrom("noisy", nil, request("", "owner-3"))
			q.Add(request("", "owner-3"))
			q.AddFrom("noisy", nil, request("", "owner-3"), request("", "owner-4"))
			expect(t, drain(q, 4), "/owner-1", "/owner-3", "/owner-2", "/owner-4")
		})
	}
}

func TestQueue_Weights(t *testing.T) {
	t.Parallel()
	weight := func(name state.ClusterName) int { return map[state.ClusterName]int{"heavy": 2}[name] }
	q, _ := NewQueue(weight)("", limiter()).(fairQueue)
	for i := range 3 {
		q.Add(request("heavy", fmt.Sprint(i)))
		q.Add(request("light", fmt.Sprint(i)))
	}
	expect(t, drain(q, 6), "heavy//0", "heavy//1", "light//0", "heavy//2", "light//1", "light//2")
}

func TestQueue_PrioritiesWithinARemote(t *testing.T) {
	t.Parallel()
	q := fair()
	add := func(priority int, names ...string) {
		for _, name := range names {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request("a", name))
		}
	}
	add(-100, "low", "raised", "lowest")
	add(0, "first", "second")
	add(10, "raised")
	add(-200, "second") // The higher priority applies.
	expect(t, drain(q, 5), "a//raised", "a//first", "a//second", "a//low", "a//lowest")
}

// For every order of additions and reconciles, each request is handed out after its last addition, and not twice at the same time.
func TestQueue_LosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) {
			q := fair()
			due := map[Request]bool{}
			working := map[Request]bool{}
			take := func() {
				r, _ := q.Get()
				if working[r] || !due[r] {
					rt.Fatalf("got %s, in progress: %v, due: %v, want a request that is due and not in progress", r, working[r], due[r])
				}
				working[r], due[r] = true, false
			}
			anyRequest := func() Request {
				return request(rapid.StringMatching(`[ab]`).Draw(rt, "cluster"), rapid.StringMatching(`[xyz]`).Draw(rt, "name"))
			}
			rt.Repeat(map[string]func(*rapid.T){
				"add": func(*rapid.T) {
					r := anyRequest()
					q.Add(r)
					due[r] = true
				},
				"add later": func(*rapid.T) {
					r := anyRequest()
					after := time.Duration(rapid.IntRange(-1, 3).Draw(rt, "after")) * time.Second
					priority := rapid.IntRange(-1, 1).Draw(rt, "priority")
					q.AddWithOpts(priorityqueue.AddOpts{After: after, Priority: &priority}, r)
					due[r] = true
				},
				"add from elsewhere": func(*rapid.T) {
					r := anyRequest()
					priority := rapid.IntRange(-1, 1).Draw(rt, "priority")
					q.AddFrom(rapid.StringMatching(`[bc]`).Draw(rt, "origin"), &priority, r)
					due[r] = true
				},
				"wait": func(*rapid.T) {
					time.Sleep(time.Second) //nolint:forbidigo // The time of a bubble costs none.
					synctest.Wait()
				},
				"get": func(*rapid.T) {
					if q.Len() > len(working) { // The others wait for the end of the work on them.
						take()
					}
				},
				"done": func(*rapid.T) {
					for r := range working {
						q.Done(r)
						delete(working, r)
						break
					}
				},
			})
			for r := range working {
				q.Done(r)
				delete(working, r)
			}
			time.Sleep(time.Minute) //nolint:forbidigo // The time of a bubble costs none.
			synctest.Wait()
			for q.Len() > 0 {
				take()
			}
			for r, left := range due {
				if left {
					rt.Fatalf("%s was lost", r)
				}
			}
		})
	})
}

// Requests are dropped until a controller begins, and go to the one that began last.
func TestRequests(t *testing.T) {
	t.Parallel()
	var requests Requests
	requests.Add("early", 0)
	var queues [2]workqueue.TypedRateLimitingInterface[reconcile.Request]
	for i := range queues {
		queues[i] = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queues[i].ShutDown()
		testkit.Must(t, requests.Source().Start(t.Context(), queues[i]))
		requests.Add("now", 0)
		requests.Add("later", time.Hour)
	}
	for _, one := range queues {
		testkit.Equal(t, one.Len(), 1, "requests")
	}
}
