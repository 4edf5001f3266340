// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/modules/multiclusterruntime"
)

// newFairQueue returns a queue as a controller gets it.
func newFairQueue(t *testing.T) priorityqueue.PriorityQueue[mcreconcile.Request] {
	t.Helper()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[mcreconcile.Request](time.Millisecond, time.Minute)
	q, ok := multiclusterruntime.NewQueue(nil)("test", limiter).(priorityqueue.PriorityQueue[mcreconcile.Request])
	if !ok {
		t.Fatal("controllers would not use the queue's priorities")
	}
	t.Cleanup(q.ShutDown)
	return q
}

// A request comes out as it went in, whatever it is, and behind one of each other remote.
func TestNewQueue_TakesTurns(t *testing.T) {
	t.Parallel()
	q := newFairQueue(t)
	for i := range 1000 {
		q.Add(in("busy", client.ObjectKey{Namespace: "default", Name: fmt.Sprint(i)}))
	}
	quiet := in("quiet", client.ObjectKey{Name: "cluster-scoped"})
	ofHub := in("", client.ObjectKey{Namespace: "default", Name: "of-the-hub"})
	q.AddWithOpts(priorityqueue.AddOpts{}, quiet, ofHub)
	turns := map[mcreconcile.Request]int{}
	for i := range 6 {
		r, shutdown := q.Get()
		if shutdown {
			t.Fatal("the queue has shut down")
		}
		turns[r] = i + 1
		q.Done(r)
	}
	if turns[quiet] == 0 || turns[ofHub] == 0 {
		t.Errorf("a thousand requests of one remote hold up those of others: %v", turns)
	}
	if got := q.Len(); got != 996 {
		t.Errorf("%d requests are left, want 996", got)
	}
}

// What a controller does with failures, it does with the failures of a request of a remote.
func TestNewQueue_Retries(t *testing.T) {
	t.Parallel()
	q := newFairQueue(t)
	one := in("one", client.ObjectKey{Name: "fails"})
	twin := in("two", client.ObjectKey{Name: "fails"})
	q.AddRateLimited(one)
	q.AddRateLimited(one)
	if got := q.NumRequeues(one); got != 2 {
		t.Errorf("the request has failed %d times, want 2", got)
	}
	if got := q.NumRequeues(twin); got != 0 {
		t.Errorf("the request of another remote has failed %d times, want 0", got)
	}
	if got, _, _ := q.GetWithPriority(); got != one {
		t.Errorf("got %s", got)
	}
	q.Forget(one)
	if got := q.NumRequeues(one); got != 0 {
		t.Errorf("the request has failed %d times after it was forgotten", got)
	}
	q.Done(one)
	q.AddAfter(twin, time.Millisecond)
	if got, _ := q.Get(); got != twin {
		t.Errorf("got %s", got)
	}
	q.Done(twin)
	q.ShutDownWithDrain()
	if !q.ShuttingDown() {
		t.Error("the queue has not shut down")
	}
}
