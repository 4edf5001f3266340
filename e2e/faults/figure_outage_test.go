// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

const (
	fencedWithin = 100 * time.Millisecond
	deadWithin   = time.Millisecond
	extraReady   = 250 * time.Millisecond
)

// TestFigure_Outages measures, for many remotes at once, the time until an outage and its end show in the Clusters, the
// time until a lease of a dead remote is refused, and the time until the app of a dead remote is fenced.
func TestFigure_Outages(t *testing.T) {
	fleettest.Slow(t, "nothing: figures are measured on an idle machine")
	const remotes = 40
	s := newStage(t, stageOptions{}, "one", "two")
	s.startHub()
	refused := s.newCrowd(t, crowd{n: remotes, name: "refused", on: []string{"one", "two"}, proxied: true})
	silent := s.newCrowd(t, crowd{n: remotes, name: "silent", on: []string{"one", "two"}, proxied: true})
	expectAllReady(t, slices.Concat(refused, silent))

	setAll(refused, fault.Refuse())
	report(t, durations("outage to Unreachable, refused", detectRefused, expectAll(refused, becomes(hubv1.ReasonUnreachable))))
	report(t, durations("`WithClient` on a dead remote", deadWithin, s.refuseLeases(t, refused)))
	setAll(refused, fault.Pass())
	back := expectAll(refused, becomesReady)

	setAll(silent, fault.Blackhole())
	report(t, durations("outage to Unreachable, silent", detectSilent, expectAll(silent, becomes(hubv1.ReasonTimedOut))))
	setAll(silent, fault.Pass())
	report(t, durations("recovery after return", recovered, append(back, expectAll(silent, becomesReady)...)))

	setAll(silent, fault.Blackhole())
	report(t, durations("Stop fenced, of a dead remote", fencedWithin, s.stopAll(t, silent)))
}

// becomes, becomesUnready and becomesReady wait with the timeout patience: the duration is a figure.
func becomes(reason string) func(*remote) time.Duration {
	return func(r *remote) time.Duration {
		return r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, reason, patience)
	}
}

func becomesUnready(r *remote) time.Duration {
	return r.awaits("Reachable=False", patience, func(c *hubv1.Cluster) bool {
		return conditionReason(c, hubv1.ConditionReachable, metav1.ConditionFalse) != ""
	})
}

func becomesReady(r *remote) time.Duration { return r.expectReady(patience) }

func durations(what string, goal time.Duration, took []time.Duration) figure {
	p99 := percentile(took, 99)
	return figure{
		what: what, goal: fmt.Sprintf("<= %s p99", goal), measured: spread(took),
		met: p99 <= goal, far: p99 > farOff*goal,
	}
}

func (s *stage) refuseLeases(t *testing.T, all []*remote) []time.Duration {
	t.Helper()
	var took []time.Duration
	for range 100 {
		for _, r := range all {
			began := time.Now()
			err := r.lease(func(context.Context, client.Client) error { return nil })
			took = append(took, time.Since(began))
			if err == nil {
				t.Fatalf("%s: got a lease, want an error", r.name)
			}
		}
	}
	return took
}

// stopAll stops silent remotes while callers hold leases of them, and returns the time from each call of Stop until the
// lease has ended and its request has returned. After that the remotes are reachable again, and the client of the lease
// is refused: no API server performs its request.
func (s *stage) stopAll(t *testing.T, all []*remote) []time.Duration {
	t.Helper()
	took := make([]time.Duration, len(all))
	var working, measuring sync.WaitGroup
	measuring.Add(len(all))
	for i, r := range all {
		working.Go(func() {
			name, lent, stopped := registry.ClusterName(r.name), make(chan struct{}), make(chan time.Time, 1)
			working.Go(func() {
				<-lent
				stopped <- time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_ = s.remotes().Stop(ctx, name) // The hub adds it again.
			})
			err := r.lease(func(ctx context.Context, c client.Client) error {
				close(lent)
				// This request is in flight, and does not arrive, when the remote is stopped.
				_ = c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: "late"}})
				<-ctx.Done()
				took[i] = time.Since(<-stopped)
				measuring.Done()
				measuring.Wait()
				r.expectFenced(t.Context(), c)
				return nil
			})
			testkit.NoError(t, err)
		})
	}
	working.Wait()
	return took
}

// expectFenced repairs the connection, and checks that a client that has outlived its app is refused and that the API
// server has not performed its request.
func (r *remote) expectFenced(ctx context.Context, outlived client.Client) {
	testkit.NoError(r.t, r.proxy.Set(fault.Pass()))
	request := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: "after-the-stop"}}
	testkit.ErrorIs(r.t, outlived.Create(ctx, request), registry.ErrStopped, r.name, "a request after the stop returns")
	err := r.stage.clientFor(r.t, r.on.Config()).Get(ctx, client.ObjectKeyFromObject(request), request)
	if !apierrors.IsNotFound(err) {
		r.t.Errorf("%s: read the object of the request after the stop: got %v, want NotFound", r.name, err)
	}
}

// TestFigure_BlackHoles measures how much longer a remote takes to become Ready when ten of a hundred other remotes are
// black-holed.
func TestFigure_BlackHoles(t *testing.T) {
	fleettest.Slow(t, "nothing: figures are measured on an idle machine")
	const rounds, joins = 4, 6
	s := newStage(t, stageOptions{}, "one", "two")
	s.startHub()
	others := s.newCrowd(t, crowd{n: 90, on: []string{"one", "two"}})
	holes := s.newCrowd(t, crowd{n: 10, name: "hole", on: []string{"one", "two"}, proxied: true})
	expectAllReady(t, append(others, holes...))
	var without, with []time.Duration
	for i := range rounds { // as many without the fault, before and after it
		without = append(without, s.join(t, fmt.Sprintf("without-%d", i), joins)...)
		setAll(holes, fault.Blackhole())
		with = append(with, s.join(t, fmt.Sprintf("unnoticed-%d", i), joins)...)
		expectAll(holes, becomesUnready)
		with = append(with, s.join(t, fmt.Sprintf("noticed-%d", i), joins)...)
		setAll(holes, fault.Pass())
		expectAllReady(t, holes)
		without = append(without, s.join(t, fmt.Sprintf("again-%d", i), joins)...)
	}
	median, p99 := percentile(with, 50)-percentile(without, 50), percentile(with, 99)-percentile(without, 99)
	report(t, figure{
		what: "10 of 100 black-holed: extra time for another remote to become Ready", goal: "< " + extraReady.String(),
		measured: fmt.Sprintf("median %s, p99 %s (with: %s; without: %s)", short(median), short(p99), spread(with), spread(without)),
		met:      median < extraReady && p99 < extraReady,
		far:      median > extraReady,
	})
}

// join registers remotes, one after the other, and returns the time that each took to become Ready.
func (s *stage) join(t *testing.T, name string, n int) []time.Duration {
	t.Helper()
	var took []time.Duration
	for i := range n {
		for _, r := range s.newCrowd(t, crowd{n: 1, name: fmt.Sprintf("%s-%d", name, i), on: []string{"one"}}) {
			took = append(took, r.expectReady(patience))
			r.leave()
		}
		<-time.After(500 * time.Millisecond) // The black-holed remotes are at different points of their probes.
	}
	return took
}
