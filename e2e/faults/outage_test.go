// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// outageRows are about the network to a remote: outages, latency, bandwidth and load.
func outageRows() []row {
	return []row{
		{name: "network black-holed", run: outage(fault.Blackhole(), hubv1.ReasonTimedOut, detectSilent)},
		{name: "answers lost", run: lostAnswers},
		{name: "answers kept back by a proxy", run: outage(fault.Hold(), hubv1.ReasonTimedOut, detectSilent)},
		{name: "requests lost", run: outage(fault.LoseRequests(), hubv1.ReasonTimedOut, detectSilent)},
		{name: "connections reset repeatedly", run: resets},
		{name: "outages that follow each other", run: flapping},
		{name: "two seconds of latency", run: latency(20 * time.Second)},
		{
			name: "two seconds of latency for more than a minute", run: latency(80 * time.Second),
		},
		{
			name: "two seconds of latency at registration", run: latencyAtRegistration,
		},
		{name: "initial list that takes ten seconds on the way", run: slowList(10 * time.Second)},
		{
			name: "initial list that takes a minute on the way", run: slowList(time.Minute),
		},
		{name: "remote with as many events as it can have", run: noisy},
		{name: "server that moves to and fro", run: restless},
	}
}

// outage is a remote that becomes unreachable and returns.
func outage(f fault.Fault, reason string, bound time.Duration) func(*testing.T, *stage) {
	return func(t *testing.T, s *stage) {
		t.Helper()
		r := s.remoteOf(t, s.cluster(calm))
		r.register()
		r.expectReady(patience)
		epoch := r.epoch()
		r.set(f)
		r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, reason, bound)
		r.expectNotReady(reason)
		r.set(fault.Pass())
		r.expectReady(recovered)
		if r.epoch() == epoch {
			t.Error("the app keeps its old epoch, whose informers may no longer receive events")
		}
		r.expectWorking()
	}
}

// lostAnswers is a remote that performs requests and whose responses are lost.
func lostAnswers(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	r.register(quick, func(c *hubv1.ClusterSpec) { c.Client.TimeoutSeconds = 2 })
	r.expectReady(patience)
	r.set(fault.LoseAnswers())
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: "unheard"}}
	err := r.lease(func(ctx context.Context, c client.Client) error { return c.Create(ctx, written) })
	testkit.Fails(t, err, "a write whose response is lost succeeds")
	r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTimedOut, detectSilent)
	direct := s.clientFor(t, r.on.Config())
	must(t, direct.Get(t.Context(), client.ObjectKeyFromObject(written), &corev1.ConfigMap{}))
	r.set(fault.Pass())
	r.expectReady(recovered)
	r.expectWorking()
}

// resets is a network that resets every connection, and then accepts new connections.
func resets(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	r.register(quick)
	r.expectReady(patience)
	epoch := r.epoch()
	for range 4 {
		r.set(fault.Reset())
		r.set(fault.Pass())
		r.staysReady(epoch, 2*time.Second)
		r.expectWorking()
	}
}

// flapping is a remote that is unreachable for a while, returns for a while, and is unreachable again.
func flapping(t *testing.T, s *stage) {
	t.Helper()
	const down, up, rounds = 6 * time.Second, 3 * time.Second, 12
	r := s.remoteOf(t, s.cluster(calm))
	r.register(quick)
	r.expectReady(patience)
	first := r.epoch()
	began := time.Now()
	for i := range rounds {
		r.set(fault.Refuse())
		r.waits(down)
		r.set(fault.Pass())
		if i < rounds-1 {
			r.waits(up)
		}
	}
	versions, _ := s.history.since(r.name, began)
	changes := 0
	for i, v := range versions[1:] {
		if isReady(v.cluster) != isReady(versions[i].cluster) {
			changes++
		}
	}
	// Without damping Ready changes twice and one app starts in each round. With damping the remote must be reachable
	// for one second, then for two, for four, and so on.
	t.Logf("%d changes of Ready and %d epochs in %d outages", changes, r.epochsSince(first), rounds)
	if changes > rounds/2 {
		t.Errorf("Ready changed %d times in %d outages, want at most half as many changes", changes, rounds)
	}
	r.expectReady(patience) // The remote must be reachable for half a minute.
	r.expectWorking()
}

// latency is a remote whose connection gets a high latency, for some time.
func latency(long time.Duration) func(*testing.T, *stage) {
	return func(t *testing.T, s *stage) {
		t.Helper()
		r := s.remoteOf(t, s.cluster(calm))
		r.register()
		r.expectReady(patience)
		epoch := r.epoch()
		r.set(longLine())
		r.expectWorking()
		before := r.proxy.Stats().Accepted
		r.staysReady(epoch, long)
		testkit.Equal(t, r.proxy.Stats().Accepted, before, "connections, of which a slow one is not given up")
	}
}

// longLine takes two seconds for a request and its response.
func longLine() fault.Fault { return fault.Delay(time.Second, 100*time.Millisecond) }

// latencyAtRegistration is a remote whose connection has a high latency from the beginning.
func latencyAtRegistration(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	r.set(longLine())
	r.register()
	r.expectReady(patience)
	r.expectWorking()
}

// slowLine is the bandwidth of a slow connection, in bytes per second.
const slowLine = 64 << 10

// slowList is a remote whose initial list takes much longer than a probe may, over the same network.
func slowList(least time.Duration) func(*testing.T, *stage) {
	const size = 32 << 10 // bytes of an object
	return func(t *testing.T, s *stage) {
		t.Helper()
		r := s.remoteOf(t, s.cluster(calm))
		r.fill(int(least/time.Second)*slowLine/size, size)
		r.set(fault.Throttle(slowLine))
		r.register()
		r.expect(hubv1.ConditionModulesReady, metav1.ConditionUnknown, hubv1.ReasonStarting, patience)
		began := time.Now()
		r.expectReady(3 * least)
		versions, _ := s.history.since(r.name, began)
		for _, v := range versions {
			if !hasCondition(v.cluster, hubv1.ConditionReachable, metav1.ConditionTrue, hubv1.ReasonProbeSucceeded) {
				t.Errorf("the remote is not Reachable during its initial list: %s", conditionText(v.cluster))
			}
		}
	}
}

// noisy is a remote whose objects change all the time.
func noisy(t *testing.T, s *stage) {
	t.Helper()
	const writers, long = 16, 20 * time.Second
	// twin is neither the cluster of the neighbours, which would share its API server, nor a cluster that is stopped.
	r := s.remoteOf(t, s.cluster(twin))
	r.register()
	r.expectReady(patience)
	admin := s.clientFor(t, r.on.Config())
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var writing sync.WaitGroup
	var writes atomic.Int64
	for i := range writers {
		name := fmt.Sprintf("noise-%d", i)
		r.newConfigMap(name)
		writing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: name}}
				patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)
				if err := admin.Patch(ctx, one, client.RawPatch(types.MergePatchType, patch)); err == nil {
					writes.Add(1)
				}
			}
		})
	}
	writing.Wait()
	t.Logf("%d events per second", writes.Load()/int64(long/time.Second))
	r.expectWorking()
}
