// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// neighbour watches a healthy remote while other remotes of the same registry are unhealthy: its state, its leases and
// the latency of its reconciler.
type neighbour struct {
	registry *registry.Registry
	cluster  *fleet.Cluster
	name     registry.ClusterName
	before   registry.Status
	direct   client.Client

	watching sync.WaitGroup
	stop     context.CancelFunc

	mu        sync.Mutex // protects the fields
	latencies []time.Duration
	leases    int
	failures  []error
}

// Periods of the neighbour's measurements.
const (
	leaseEvery = 20 * time.Millisecond
	writeEvery = 200 * time.Millisecond
)

// newNeighbour registers a remote that runs the counter, waits until it is Ready and starts to watch it. check, which
// the test calls at the end, reports the results.
func newNeighbour(t *testing.T, r *registry.Registry, name registry.ClusterName) *neighbour {
	t.Helper()
	c, config := remote(t, string(name))
	spawn(t, r, name, config)
	info, _ := r.Status(name)
	n := &neighbour{registry: r, cluster: c, name: name, before: info, direct: clientFor(t, c)}
	ctx, stop := context.WithCancel(t.Context())
	n.stop = stop
	n.watching.Go(func() { n.every(ctx, leaseEvery, n.lease) })
	n.watching.Go(func() { n.every(ctx, writeEvery, func(ctx context.Context) error { return n.write(ctx, t) }) })
	t.Cleanup(n.end)
	return n
}

func (n *neighbour) end() {
	n.stop()
	n.watching.Wait()
}

func (n *neighbour) every(ctx context.Context, period time.Duration, do func(context.Context) error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := do(ctx); err != nil && ctx.Err() == nil {
			n.mu.Lock()
			n.failures = append(n.failures, err)
			n.mu.Unlock()
		}
	}
}

// lease checks the state, and uses the client.
func (n *neighbour) lease(ctx context.Context) error {
	info, _ := n.registry.Status(n.name)
	if info.State != state.StateReady || !info.Since.Equal(n.before.Since) || info.Epoch != n.before.Epoch {
		return &stateError{want: state.StateReady, reason: state.ReasonReady, got: info}
	}
	n.mu.Lock()
	n.leases++
	n.mu.Unlock()
	return n.registry.WithClient(ctx, n.name, func(ctx context.Context, c client.Client) error {
		var maps corev1.ConfigMapList
		return c.List(ctx, &maps, client.InNamespace("default"), client.Limit(1))
	})
}

// write creates an object and measures how long it takes until the reconciler has marked it.
func (n *neighbour) write(ctx context.Context, t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	one := &corev1.ConfigMap{}
	one.GenerateName, one.Namespace, one.Labels = "fresh-", "default", map[string]string{"test": "yes"}
	if err := n.direct.Create(ctx, one); err != nil {
		return fmt.Errorf("write to the neighbour: %w", err)
	}
	written := time.Now()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for one.Annotations[seenBy(string(n.name))] == "" {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return errors.New("the neighbour's reconciler does not see what is written")
		}
		if err := n.direct.Get(ctx, client.ObjectKeyFromObject(one), one); err != nil {
			return fmt.Errorf("read from the neighbour: %w", err)
		}
	}
	n.mu.Lock()
	n.latencies = append(n.latencies, time.Since(written))
	n.mu.Unlock()
	return client.IgnoreNotFound(n.direct.Delete(ctx, one))
}

// check fails the test if the neighbour was affected. Its reconciler must see 99 of 100 writes within a time: the
// machine has other work as well.
func (n *neighbour) check(t *testing.T, within time.Duration) {
	t.Helper()
	n.end()
	slices.Sort(n.latencies)
	count := len(n.latencies)
	if count == 0 {
		t.Fatal("the neighbour's reconciler has seen 0 writes")
	}
	at := func(share float64) time.Duration {
		return n.latencies[int(share*float64(count-1))].Round(time.Millisecond)
	}
	t.Logf("neighbour: %d writes seen after %s (p50), %s (p99), %s (max); %d leases, %d failures",
		count, at(0.5), at(0.99), at(1), n.leases, len(n.failures))
	if at(0.99) > within {
		t.Errorf("the neighbour's reconciler sees writes after %s (p99), want %s", at(0.99), within)
	}
	for _, err := range n.failures[:min(len(n.failures), 5)] {
		t.Errorf("the neighbour: %v", err)
	}
}
