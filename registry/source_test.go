// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/clusterfx/clusterfx/registry"
)

func TestSource(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	_, config := remote(t, "one")
	spawn(t, r, "early", config)

	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[registry.Event]())
	defer queue.ShutDown()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := registry.Source(r, func(e registry.Event) []registry.Event { return []registry.Event{e} })
	must(t, events.Start(ctx, queue))
	expect := func(want registry.Event) {
		t.Helper()
		eventually(t, func() error {
			if queue.Len() == 0 {
				return fmt.Errorf("no event; want %v", want)
			}
			got, _ := queue.Get()
			queue.Done(got)
			if got != want {
				return fmt.Errorf("got %v; want %v", got, want)
			}
			return nil
		})
	}
	expect(registry.Event{Name: "early", Kind: registry.EventReady, Epoch: 1})
	must(t, r.Ensure("late", config))
	expect(registry.Event{Name: "late", Kind: registry.EventReady, Epoch: 2})
	config.Paused = true
	must(t, r.Ensure("late", config))
	expect(registry.Event{Name: "late", Kind: registry.EventLost, Epoch: 2})
	must(t, r.Stop(t.Context(), "late"))
	expect(registry.Event{Name: "late", Kind: registry.EventStopped, Epoch: 2})
}

// After a panic of a function of the hub's own, Follow calls the function with the next event.
func TestRegistry_FollowAfterAPanic(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	var calls atomic.Int64
	r.Follow(t.Context(), func(registry.Event) {
		if calls.Add(1) == 1 {
			panic("boom")
		}
	})
	_, config := remote(t, "one")
	spawn(t, r, "followed", config)
	must(t, r.Relabel("followed", map[string]string{"a": "b"}, nil))
	eventually(t, func() error {
		if n := calls.Load(); n < 2 {
			return fmt.Errorf("got %d calls, want 2", n)
		}
		return nil
	})
}
