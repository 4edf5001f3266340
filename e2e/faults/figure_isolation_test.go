// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// Of a hundred remotes, five have each of the six faults.
const (
	healthyRemotes = 70
	faultyEach     = 5
	// healthyEvery is the time between two writes in each healthy remote.
	healthyEvery = time.Second
	// isolationPhase is the duration of each measurement of the healthy remotes, with faults and without.
	isolationPhase = 30 * time.Second
	// isolationRounds is the number of measurements without and with all faults, in turns.
	isolationRounds = 5
	isolationGoal   = 1.1
)

// TestFigure_Isolation compares the reconcile latency of the healthy remotes with and without six kinds of faults in 30
// of 100 remotes.
func TestFigure_Isolation(t *testing.T) {
	fleettest.Slow(t, "nothing: figures are measured on an idle machine")
	misbehaving := newMisbehaviour()
	s := newStage(t, stageOptions{modules: misbehaving.modules}, "one", "two", "three")
	s.startHub()
	healthy := s.newCrowd(t, crowd{n: healthyRemotes, name: "healthy", on: []string{"one", "two"}})
	faults := s.sixWays(t, misbehaving)
	expectAllReady(t, healthy)
	for _, f := range faults {
		expectAllReady(t, f.remotes)
	}
	s.writeIn(t, healthy)
	for _, f := range faults { // so that the log shows the cause of a bad figure
		t.Logf("%s alone: %s", f.name, spread(s.measureDuring(t, healthy, f)))
	}
	var without, with []time.Duration
	var ratios []float64
	for range isolationRounds {
		before, during := s.measure(t, healthy), s.measureDuring(t, healthy, faults...)
		ratios = append(ratios, float64(percentile(during, 99))/float64(percentile(before, 99)))
		without, with = append(without, before...), append(with, during...)
	}
	slices.Sort(ratios)
	ratio := ratios[len(ratios)/2]
	report(t, figure{
		what: "30 of 100 remotes faulty in six ways: p99 reconcile latency of the healthy",
		goal: fmt.Sprintf("<= %.1f x without faults", isolationGoal),
		measured: fmt.Sprintf("median of %d p99s %.2f x, range %.2f to %.2f (with: %s; without: %s)",
			len(ratios), ratio, ratios[0], ratios[len(ratios)-1], spread(with), spread(without)),
		met: ratio <= isolationGoal,
		far: ratio > farOff*isolationGoal,
	})
}

func (s *stage) measureDuring(t *testing.T, healthy []*remote, faults ...*faultyOnes) []time.Duration {
	t.Helper()
	for _, f := range faults {
		f.begin(t)
	}
	took := s.measure(t, healthy)
	for _, f := range faults {
		f.check(t)
		f.end(t)
	}
	for _, f := range faults {
		awaitReady(t, f.remotes)
	}
	return took
}

// awaitReady waits until the remotes are Ready, after the damping of their return or the backoff of their app.
func awaitReady(t *testing.T, all []*remote) {
	t.Helper()
	for _, r := range all {
		r.awaits("Ready", 5*time.Minute, isReady)
	}
}

func (s *stage) writeIn(t *testing.T, all []*remote) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var writing sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		writing.Wait()
	})
	admins := map[*fleet.Cluster]client.Client{}
	for i, r := range all {
		if admins[r.on] == nil {
			admins[r.on] = s.clientFor(t, r.on.Config())
		}
		admin, offset := admins[r.on], time.NewTimer(healthyEvery*time.Duration(i)/time.Duration(len(all)))
		writing.Go(func() {
			defer offset.Stop()
			<-offset.C
			every(ctx, healthyEvery, func(ctx context.Context, _ int) {
				err := s.stopwatch.write(ctx, admin, registry.ClusterName(r.name), r.name)
				if err != nil && ctx.Err() == nil {
					t.Errorf("write in %s: %v", r.name, err)
				}
			})
		})
	}
}

// measure returns the reconcile latencies of the remotes in the next isolationPhase.
func (s *stage) measure(t *testing.T, all []*remote) []time.Duration {
	t.Helper()
	from := time.Now()
	timer := time.NewTimer(isolationPhase)
	defer timer.Stop()
	<-timer.C
	to := time.Now()
	var took []time.Duration
	for _, r := range all {
		seen, _ := s.stopwatch.between(registry.ClusterName(r.name), from, to)
		_, unseen := s.stopwatch.between(registry.ClusterName(r.name), from, to.Add(-seenWithin))
		if unseen > 0 {
			t.Errorf("%d writes in %s were not reconciled", unseen, r.name)
		}
		took = append(took, seen...)
	}
	return took
}

// faultyOnes are remotes with the same fault.
type faultyOnes struct {
	name    string
	remotes []*remote
	start   func(*testing.T, *remote)
	stop    func(*testing.T, *remote)
	// shows is the reason for which they are not Ready during the fault, or "" if they are Ready.
	shows string
}

func (f *faultyOnes) begin(t *testing.T) {
	t.Helper()
	for _, r := range f.remotes {
		f.start(t, r)
		r.since = time.Now()
	}
}

func (f *faultyOnes) end(t *testing.T) {
	t.Helper()
	for _, r := range f.remotes {
		f.stop(t, r)
		r.since = time.Now()
	}
}

// check fails the test if a fault had no effect.
func (f *faultyOnes) check(t *testing.T) {
	t.Helper()
	for _, r := range f.remotes {
		versions, _ := r.stage.history.since(r.name, r.since)
		found := f.shows == ""
		for _, v := range versions {
			found = found || conditionReason(v.cluster, hubv1.ConditionReady, metav1.ConditionFalse) == f.shows
		}
		if !found {
			t.Errorf("%s: %s never had reason %s: %s", f.name, r.name, f.shows, conditionText(versions[len(versions)-1].cluster))
		}
	}
}

func (s *stage) sixWays(t *testing.T, misbehaving *misbehaviour) []*faultyOnes {
	t.Helper()
	of := func(name string, changes ...change) []*remote {
		return s.newCrowd(t, crowd{n: faultyEach, name: name, on: []string{"three"}, proxied: true, changes: changes})
	}
	set := func(f fault.Fault) func(*testing.T, *remote) {
		return func(_ *testing.T, r *remote) { r.set(f) }
	}
	misbehave := func(on bool) func(*testing.T, *remote) {
		return func(t *testing.T, r *remote) {
			t.Helper()
			misbehaving.set(registry.ClusterName(r.name), on)
			must(t, s.stopwatch.write(t.Context(), s.clientFor(t, r.on.Config()), registry.ClusterName(r.name), r.name))
		}
	}
	reform := func(t *testing.T, r *remote) {
		misbehave(false)(t, r)
		r.update(func(c *hubv1.ClusterSpec) { c.Client.QPS++ }) // Otherwise the next attempt is two minutes away.
	}
	slow := of("slow")
	for _, r := range slow {
		r.fill(64, 32<<10)
	}
	return []*faultyOnes{
		{"refuse", of("refuse"), set(fault.Refuse()), set(fault.Pass()), hubv1.ReasonUnreachable},
		{"black hole", of("hole"), set(fault.Blackhole()), set(fault.Pass()), hubv1.ReasonTimedOut},
		{"slow list", slow, listSlowly, set(fault.Pass()), ""},
		{"401", of("unknown"), revokeCredential, giveCredential, hubv1.ReasonUnauthorized},
		{"panic", of("panic", runs(stopwatchName, panicking)), misbehave(true), reform, hubv1.ReasonModuleFailed},
		{"hot loop", of("loop", runs(stopwatchName, looping)), misbehave(true), misbehave(false), ""},
	}
}

// listSlowly makes the app relist everything, over a connection that takes the whole phase for it.
func listSlowly(t *testing.T, r *remote) {
	t.Helper()
	r.set(fault.Throttle(slowLine))
	r.update(func(c *hubv1.ClusterSpec) { c.Client.QPS++ })
}

// revokeCredential makes the remote refuse its credential. An API server caches for ten seconds that a token is valid.
func revokeCredential(t *testing.T, r *remote) {
	t.Helper()
	user := fleet.User{Name: r.name, Rules: allRights}
	minted, err := r.on.MintToken(t.Context(), user)
	must(t, err)
	before := r.fingerprint()
	must(t, r.store(minted.Kubeconfig()))
	// A token that is revoked before the app uses it is never used: the app keeps its credential.
	eventually(t, func() error {
		if now := r.fingerprint(); now == before {
			return errors.New("the minted token is not in use: " + now)
		}
		return nil
	})
	must(t, minted.Revoke(t.Context()))
}

func giveCredential(t *testing.T, r *remote) {
	t.Helper()
	must(t, r.store(r.on.Kubeconfig()))
}
