// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

// newLimiter returns a rate limiter with delays of 1 s, 2 s, 4 s and so on.
func newLimiter() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)
}

// newQueue returns a queue without metrics that is shut down at the end of the test.
func newQueue(t *testing.T) *contain.Queue[string] {
	t.Helper()
	q := contain.NewQueue("test", newLimiter(), nil)
	t.Cleanup(q.ShutDown)
	return q
}

func withPriority(priority int) priorityqueue.AddOpts {
	return priorityqueue.AddOpts{Priority: &priority}
}

// take returns the next items, which must be ready, without Done.
func take(t *testing.T, q priorityqueue.PriorityQueue[string], n int) []string {
	t.Helper()
	var got []string
	for range n {
		key, shutdown := q.Get()
		if shutdown {
			t.Fatal("Get: the queue has shut down")
		}
		got = append(got, key)
	}
	return got
}
