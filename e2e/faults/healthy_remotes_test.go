// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// Load on a neighbour while another remote has a fault.
const (
	writeEvery = 100 * time.Millisecond
	leaseEvery = 20 * time.Millisecond
	// liveEvery is the number of leases between two that also send a request.
	liveEvery = 10
	// seenWithin is the time after which a write that was not reconciled counts as lost.
	seenWithin = 5 * time.Second
)

// neighbour is a healthy remote under observation.
type neighbour struct {
	*remote
	stage *stage
	admin client.Client // of the remote, not the hub's

	mu     sync.Mutex // protects the fields below
	leases []sample   // the time until the callback ran
	failed []failedLease
}

type failedLease struct {
	at  time.Time
	err error
}

// neighbours are the healthy remotes, which must not be affected.
type neighbours []*neighbour

// newNeighbours registers n remotes in a cluster, and puts them under load until the test ends.
func newNeighbours(s *stage, n int, on string) neighbours {
	s.t.Helper()
	var all neighbours
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var work sync.WaitGroup
	s.t.Cleanup(func() {
		cancel()
		work.Wait()
	})
	for i := range n {
		r := s.newRemote(s.t, fmt.Sprintf("neighbour-%d", i), s.cluster(on))
		r.register()
		all = append(all, &neighbour{remote: r, stage: s, admin: s.clientFor(s.t, r.on.Config())})
	}
	for _, one := range all {
		one.expectReady(patience)
		work.Go(func() { every(ctx, writeEvery, one.write) })
		work.Go(func() { every(ctx, leaseEvery, one.lease) })
	}
	return all
}

func every(ctx context.Context, period time.Duration, f func(ctx context.Context, n int)) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f(ctx, n)
		}
	}
}

func (n *neighbour) write(ctx context.Context, _ int) {
	err := n.stage.stopwatch.write(ctx, n.admin, registry.ClusterName(n.name), n.name)
	if err != nil && ctx.Err() == nil {
		n.stage.t.Errorf("write in %s: %v", n.name, err)
	}
}

// lease borrows the client, reads from the cache with it, and sometimes sends a dry-run write.
func (n *neighbour) lease(ctx context.Context, i int) {
	began := time.Now()
	var lent time.Duration
	err := n.stage.remotes().WithClient(ctx, registry.ClusterName(n.name), func(ctx context.Context, c client.Client) error {
		lent = time.Since(began)
		var one corev1.ConfigMap
		err := c.Get(ctx, client.ObjectKey{Namespace: n.name, Name: stopwatchName}, &one)
		if client.IgnoreNotFound(err) != nil || i%liveEvery > 0 {
			return client.IgnoreNotFound(err)
		}
		one = corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: n.name, GenerateName: "lease-"}}
		return c.Create(ctx, &one, client.DryRunAll)
	})
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leases = append(n.leases, sample{began, lent})
	if err != nil {
		n.failed = append(n.failed, failedLease{began, err})
	}
}

// observe observes the neighbours from now on. finish fails the test if they were affected: a lease failed, the
// condition Ready changed, the epoch changed, or no reconciler saw a write. It also logs the latencies of reconciles.
func (all neighbours) observe(t *testing.T) (finish func()) {
	t.Helper()
	from := time.Now()
	epochs := make([]int64, len(all))
	for i, n := range all {
		epochs[i] = n.epoch()
	}
	return func() {
		t.Helper()
		to := time.Now()
		var waits []time.Duration
		for i, n := range all {
			waits = append(waits, n.check(t, from, to)...)
			testkit.Equal(t, n.epoch(), epochs[i], "the app of", n.name, "restarted: epoch")
		}
		t.Logf("neighbours during %s: %d writes, reconciled within %s (median), %s (p99)",
			to.Sub(from).Round(time.Millisecond), len(waits), percentile(waits, 50), percentile(waits, 99))
	}
}

// check fails the test if the neighbour was affected between two times, and returns its reconcile latencies.
func (n *neighbour) check(t *testing.T, from, to time.Time) []time.Duration {
	t.Helper()
	for _, f := range n.failures(from, to) {
		t.Errorf("a lease of %s failed after %s: %v", n.name, f.at.Sub(from), f.err)
	}
	versions, _ := n.stage.history.since(n.name, from)
	since := readySince(versions[0].cluster)
	for _, v := range versions {
		if now := readySince(v.cluster); now.IsZero() || !now.Equal(since) {
			t.Errorf("%s did not stay Ready: %s", n.name, conditionText(v.cluster))
		}
	}
	_, unseen := n.stage.stopwatch.between(registry.ClusterName(n.name), from, to.Add(-seenWithin))
	if unseen > 0 {
		t.Errorf("%d writes in %s were not reconciled within %s", unseen, n.name, seenWithin)
	}
	waits, _ := n.stage.stopwatch.between(registry.ClusterName(n.name), from, to)
	return waits
}

func (n *neighbour) failures(from, to time.Time) []failedLease {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []failedLease
	for _, f := range n.failed {
		if !f.at.Before(from) && f.at.Before(to) {
			all = append(all, f)
		}
	}
	return all
}
