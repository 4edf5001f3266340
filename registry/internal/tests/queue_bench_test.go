// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry/internal/queue"
)

type requests = priorityqueue.PriorityQueue[reconcile.Request]

// BenchmarkQueue compares the queue with that of controller-runtime, both with metrics. The case idle has the cost of a
// queue that is empty, with a worker of it that waits; the case items the cost of 10 000 items that are added, taken and
// done.
func BenchmarkQueue(b *testing.B) {
	m := queue.NewMetrics(prometheus.NewRegistry())
	newLimiter := func() workqueue.TypedRateLimiter[reconcile.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 1000*time.Second)
	}
	for name, newQueue := range map[string]func() requests{
		"clusterfx": func() requests { return queue.New("bench", newLimiter(), m) },
		"controller-runtime": func() requests {
			return priorityqueue.New("bench", func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = newLimiter() })
		},
	} {
		b.Run("idle/"+name, func(b *testing.B) { benchmarkIdle(b, newQueue) })
		b.Run("items/"+name, func(b *testing.B) { benchmarkItems(b, newQueue) })
	}
}

// benchmarkIdle makes b.N queues with a worker each. The worker is not counted as a goroutine of the queue, but its stack
// is in the bytes.
func benchmarkIdle(b *testing.B, newQueue func() requests) {
	b.Helper()
	b.ReportAllocs()
	heldBefore, goroutines := held(), runtime.NumGoroutine()
	all := make([]requests, b.N)
	ended := make(chan struct{})
	for i := range all {
		all[i] = newQueue()
		go func() {
			all[i].Get()
			ended <- struct{}{}
		}()
	}
	n := float64(b.N)
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n-1, "goroutines/queue")
	b.ReportMetric((held()-heldBefore)/n, "held-B/queue")
	for _, q := range all {
		q.ShutDown()
	}
	for range all {
		<-ended
	}
}

// held returns the memory of objects and stacks that are in use.
func held() float64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc + s.StackInuse)
}

func benchmarkItems(b *testing.B, newQueue func() requests) {
	b.Helper()
	b.ReportAllocs()
	const items = 10_000
	keys := make([]reconcile.Request, items)
	for i := range keys {
		keys[i].NamespacedName = types.NamespacedName{Namespace: "default", Name: "object-" + strconv.Itoa(i)}
	}
	q := newQueue()
	defer q.ShutDown()
	for b.Loop() {
		for _, key := range keys {
			q.AddWithOpts(priorityqueue.AddOpts{}, key)
		}
		for range keys {
			key, _, _ := q.GetWithPriority()
			q.Done(key)
		}
	}
}
