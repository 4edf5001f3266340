// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/clusterfx/clusterfx/registry"
)

// Cluster API's cache sends to its subscribers over channels that they must read, and holds
// the lock of all subscribers meanwhile: a slow subscriber blocks all others.
func TestClusterAPI_SlowSubscriberKeepsEverybodyWaiting(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	blocked := newBlocker(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	subscribe := func(f func(registry.Event)) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
		t.Cleanup(queue.ShutDown)
		must(t, registry.Source(r, func(e registry.Event) []string {
			f(e)
			return nil
		}).Start(ctx, queue))
	}
	subscribe(func(registry.Event) { blocked.block() })
	ready := make(chan registry.ClusterName, 64)
	subscribe(func(e registry.Event) {
		if e.Kind == registry.EventReady {
			ready <- e.Name
		}
	})
	for range 5 {
		name := registry.ClusterName(unique("announced"))
		quickly(t, "Spawn beside a slow subscriber", func() error { return r.Spawn(t.Context(), name, admin(t, one)) })
		blocked.await(t)
		quickly(t, "the event for another subscriber", func() error {
			for got := range ready {
				if got == name {
					break
				}
			}
			return nil
		})
		quickly(t, "Stop beside a slow subscriber", func() error { return r.Stop(t.Context(), name) })
	}
}
