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
)

// outageRows are about the network to a remote that works until it breaks.
func outageRows() []row {
	return []row{
		{ids: "F24", name: "network black-holed", run: outage(fault.Blackhole(), hubv1.ReasonTimedOut, detectSilent)},
		{ids: "F25", name: "answers lost", run: lostAnswers},
		{ids: "F5, F18", name: "answers kept back by a proxy", slow: true, run: outage(fault.Hold(), hubv1.ReasonTimedOut, detectSilent)},
		{ids: "F25", name: "requests lost", slow: true, run: outage(fault.LoseRequests(), hubv1.ReasonTimedOut, detectSilent)},
		{ids: "F26", name: "connections reset again and again", run: resets},
		{ids: "F26", name: "outages that follow each other", slow: true, run: flapping},
		{ids: "F27", name: "two seconds of latency", run: latency(20 * time.Second)},
		{
			ids: "F27", name: "two seconds of latency for more than a minute", slow: true, run: latency(80 * time.Second),
		},
		{
			ids: "F27", name: "two seconds of latency at registration", slow: true, run: latencyAtRegistration,
		},
		{ids: "F28", name: "initial list that takes ten seconds on the way", run: slowList(10 * time.Second)},
		{
			ids: "F28", name: "initial list that takes a minute on the way", slow: true, run: slowList(time.Minute),
		},
		{ids: "F46", name: "remote with as many events as it can have", slow: true, run: noisy},
	}
}

// outage is a remote that is lost and comes back.
func outage(f fault.Fault, reason string, bound time.Duration) func(*testing.T, *stage) {
	return func(t *testing.T, s *stage) {
		t.Helper()
		r := s.remoteOf(t, s.cluster(calm))
		r.register()
		r.expectReady(patience)
		epoch := r.epoch()
		r.set(f)
		r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, reason, within(bound))
		r.expectNotReady(reason)
		r.set(fault.Pass())
		r.expectReady(within(recovered))
		if r.epoch() == epoch {
			t.Error("the app stays in its old epoch, whose informers may be deaf")
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
	if err == nil {
		t.Error("a write whose answer was lost has succeeded")
	}
	r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTimedOut, within(detectSilent))
	direct := s.clientFor(t, r.on.Config())
	must(t, direct.Get(t.Context(), client.ObjectKeyFromObject(written), &corev1.ConfigMap{}))
	r.set(fault.Pass())
	r.expectReady(within(recovered))
	r.expectWorking()
}

// resets is a network that breaks every connection, and lets new ones come about.
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

// flapping is a remote that is lost for a while, comes back for a while, and is lost again.
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
	// Without damping it is two changes and an epoch in each round. A return has to last for one second,
	// then for two, for four, and so on.
	t.Logf("%d changes of Ready and %d epochs in %d outages", changes, r.epochsSince(first), rounds)
	if changes > rounds/2 {
		t.Errorf("Ready has changed %d times in %d outages", changes, rounds)
	}
	r.expectReady(patience) // It has to prove itself for half a minute.
	r.expectWorking()
}

// latency is a remote whose line becomes very long, for so much time.
func latency(long time.Duration) func(*testing.T, *stage) {
	return func(t *testing.T, s *stage) {
		t.Helper()
		r := s.remoteOf(t, s.cluster(calm))
		r.register()
		r.expectReady(patience)
		epoch := r.epoch()
		r.set(longLine())
		r.expectWorking()
		r.staysReady(epoch, long)
	}
}

// longLine needs two seconds for a question and its answer.
func longLine() fault.Fault { return fault.Delay(time.Second, 100*time.Millisecond) }

// latencyAtRegistration is a remote at the other end of a very long line from the beginning.
func latencyAtRegistration(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	r.set(longLine())
	r.register()
	r.expectReady(patience)
	r.expectWorking()
}

// slowLine lets so many bytes per second through.
const slowLine = 64 << 10

// slowList is a remote whose initial list takes much longer than a probe may, over the same line.
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
				t.Errorf("it was taken for a remote that does not answer: %s", conditionText(v.cluster))
			}
		}
	}
}

// noisy is a remote in which everything changes all the time.
func noisy(t *testing.T, s *stage) {
	t.Helper()
	const writers, long = 16, 20 * time.Second
	// Neither the cluster of the neighbours, which share its API server, nor a stopped cluster.
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
	t.Logf("%d events a second", writes.Load()/int64(long/time.Second))
	r.expectWorking()
}
