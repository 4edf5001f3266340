// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/hostile"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/multiclusterruntime"
	"github.com/clusterfx/clusterfx/registry"
)

// soon is the time in which controllers must run on responsive remotes.
const soon = 5 * time.Second

func nth(i int) multicluster.ClusterName { return multicluster.ClusterName(fmt.Sprint("remote-", i)) }

// expectAlive waits beyond the timeout of a start that waits for all remotes, and checks that events are still seen.
func (h *hub) expectAlive(t *testing.T, began time.Time, write func() client.ObjectKey, expect func(client.ObjectKey)) {
	t.Helper()
	eventually(t, func() error {
		expect(write())
		if time.Since(began) < 2*syncTimeout {
			return errors.New("not yet")
		}
		return nil
	})
}

// Remotes that are Ready but never respond to lists and watches delay neither later remotes nor the start of the
// controllers, and do not end the hub when the timeout of its caches expires. multicluster-runtime fails in both ways
// with providers whose informers wait.
func TestProvider_ListsNeverAnswered(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	key := create(t, c)
	for name, before := range map[string]bool{"engaged before the controllers start": true, "engaged later": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r record
			var l lives
			h := newStoppedHub(t, multiclusterruntime.Options{}, func(h *hub) error {
				return errors.Join(newController(h, "test").For(&corev1.ConfigMap{}).Complete(&r), h.Add(&l))
			})
			if before {
				h.engageNow(t)
			} else {
				h.start()
			}
			for i := range 3 {
				h.register(t, registry.ClusterName(fmt.Sprint("mute-", i)), mute(t, c.Kubeconfig()))
				l.expect(t, multicluster.ClusterName(fmt.Sprint("mute-", i)), 1)
			}
			began := time.Now()
			for i := range 5 {
				h.register(t, registry.ClusterName(nth(i)), c.Kubeconfig())
			}
			h.start()
			for i := range 5 {
				r.expect(t, in(nth(i), key), 0)
			}
			if took := time.Since(began); took > soon {
				t.Errorf("controller ran on the responsive remotes after %s", took)
			}
			h.expectAlive(t, began, func() client.ObjectKey { return create(t, c) }, func(key client.ObjectKey) {
				r.expect(t, in(nth(0), key), 0)
			})
		})
	}
}

// engageNow starts the hub's provider before its controllers. When the manager starts the provider a second time, that
// has no effect.
func (h *hub) engageNow(t *testing.T) {
	t.Helper()
	provider, ok := h.GetProvider().(multicluster.ProviderRunnable)
	if !ok {
		t.Fatal("provider is not runnable")
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		testkit.NoError(t, provider.Start(ctx, h.Manager), "Start")
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// mute returns a kubeconfig of a server that responds to all requests except requests for objects.
func mute(t *testing.T, kubeconf []byte) []byte {
	t.Helper()
	script, found := hostile.Named("silence for objects")
	if !found {
		t.Fatal("no such script")
	}
	s, err := hostile.New(kubeconf, script)
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	return s.Kubeconfig()
}

// A remote that is engaged and lost again before the controllers start does not prevent them from starting.
func TestProvider_LostBeforeTheStart(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	key := create(t, c)
	var r record
	var l lives
	h := newStoppedHub(t, multiclusterruntime.Options{}, func(h *hub) error {
		return errors.Join(watching(t, &r)(h), h.Add(&l))
	})
	h.engageNow(t)
	for i := range 10 { // A check that depends on chance would pass once, not ten times.
		h.register(t, registry.ClusterName(nth(i)), c.Kubeconfig())
		one := l.expect(t, nth(i), 1)
		testkit.Must(t, h.remotes.Stop(t.Context(), registry.ClusterName(nth(i))))
		expectEnd(t, one)
	}
	began := time.Now()
	h.start()
	h.register(t, "stays", c.Kubeconfig())
	r.expect(t, in("stays", key), 0)
	h.expectAlive(t, began, func() client.ObjectKey { return create(t, c) }, func(key client.ObjectKey) {
		r.expect(t, in("stays", key), 0)
	})
}
