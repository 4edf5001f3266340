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

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/multiclusterruntime"
)

// newFairQueue returns a queue as a controller receives it.
func newFairQueue(t *testing.T) priorityqueue.PriorityQueue[mcreconcile.Request] {
	t.Helper()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[mcreconcile.Request](time.Millisecond, time.Minute)
	q, ok := multiclusterruntime.NewQueue(nil)("test", limiter).(priorityqueue.PriorityQueue[mcreconcile.Request])
	if !ok {
		t.Fatal("queue has no priorities that controllers can use")
	}
	t.Cleanup(q.ShutDown)
	return q
}

// The queue returns requests unchanged, and takes turns between remotes: a thousand requests of one remote do not delay
// requests of others.
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
			t.Fatal("queue has shut down")
		}
		turns[r] = i + 1
		q.Done(r)
	}
	if turns[quiet] == 0 || turns[ofHub] == 0 {
		t.Errorf("requests of other remotes are not among the first six: %v", turns)
	}
	testkit.Equal(t, q.Len(), 996, "requests in the queue")
}

// A controller's rate limiter counts the failures of each remote's request separately.
func TestNewQueue_Retries(t *testing.T) {
	t.Parallel()
	q := newFairQueue(t)
	one := in("one", client.ObjectKey{Name: "fails"})
	twin := in("two", client.ObjectKey{Name: "fails"})
	q.AddRateLimited(one)
	q.AddRateLimited(one)
	testkit.Equal(t, q.NumRequeues(one), 2, "failures of the request")
	testkit.Equal(t, q.NumRequeues(twin), 0, "failures of a request of another remote")
	if got, _, _ := q.GetWithPriority(); got != one {
		t.Errorf("got request %s", got)
	}
	q.Forget(one)
	testkit.Equal(t, q.NumRequeues(one), 0, "failures of the request after Forget")
	q.Done(one)
	q.AddAfter(twin, time.Millisecond)
	if got, _ := q.Get(); got != twin {
		t.Errorf("got request %s", got)
	}
	q.Done(twin)
	q.ShutDownWithDrain()
	if !q.ShuttingDown() {
		t.Error("queue has not shut down")
	}
}
