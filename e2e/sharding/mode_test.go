// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func leaderLease() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-hub"}
}

// leaderHolder returns the holder of the Lease of leader mode; empty if there is none.
func (s *stage) leaderHolder() string {
	s.t.Helper()
	found := &coordinationv1.Lease{ObjectMeta: leaderLease()}
	must(s.t, client.IgnoreNotFound(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(found), found)))
	if found.Spec.HolderIdentity == nil {
		return ""
	}
	return *found.Spec.HolderIdentity
}

// installationHolds is the holder of the Lease of leader mode in Sharded mode.
const installationHolds = hubv1.DefaultNamespace + "/clusterfx-sharding"

// expectHolder waits for a holder of the Lease of leader mode with this beginning.
func (s *stage) expectHolder(prefix string) {
	s.t.Helper()
	eventually(s.t, func() error {
		if got := s.leaderHolder(); !strings.HasPrefix(got, prefix) {
			return fmt.Errorf("the Lease of leader mode is held by %q, want %s", got, prefix)
		}
		return nil
	})
}

// expectReads waits until a hub has read the Lease of leader mode some more times since now with the client of package mode.
func (s *stage) expectReads(name string) {
	s.t.Helper()
	since := time.Now()
	eventually(s.t, func() error {
		events, err := s.hub.AuditEvents(fleet.ByAgent("clusterfx/"+name+"/mode"), fleet.Since(since))
		must(s.t, err)
		if len(events) < 2 {
			return fmt.Errorf("%s has read the Lease of leader mode %d times", name, len(events))
		}
		return nil
	})
}

// expectReadyNote waits until a hub is ready, with a note on what it waits for.
func (s *stage) expectReadyNote(name, note string) {
	s.t.Helper()
	eventually(s.t, func() error {
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.replicas[name].health+"/readyz?verbose", http.NoBody)
		if err != nil {
			return err
		}
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK || !strings.Contains(string(text), note) {
			return fmt.Errorf("%s has the readiness %d and %q, want 200 and %q", name, response.StatusCode, text, note)
		}
		return err
	})
}

// agentsSince returns the hubs that have written since a time: to remotes, or to the hub's cluster, but for the Lease of leader
// mode and its events.
func (s *stage) agentsSince(since time.Time) map[string]string {
	s.t.Helper()
	found := map[string]string{}
	for _, c := range append([]*fleet.Cluster{s.hub}, s.remotes...) {
		events, err := c.AuditEvents(fleet.ByAgent("clusterfx/"), fleet.Since(since), fleet.AuditEvent.Writes)
		must(s.t, err)
		for _, e := range events {
			if e.Object.Name != leaderLease().Name || e.Object.Resource != "leases" {
				found[strings.Split(e.UserAgent, "/")[1]] = e.String()
			}
		}
	}
	return found
}

// expectWrites waits until a hub writes to each remote.
func (s *stage) expectWrites(name string) {
	s.t.Helper()
	since := time.Now()
	eventually(s.t, func() error {
		wrote := map[string]bool{}
		for _, one := range s.remoteWrites(since) {
			if one.hub == name {
				wrote[one.cluster] = true
			}
		}
		if len(wrote) != len(s.names) {
			return fmt.Errorf("%s has written to %d remotes", name, len(wrote))
		}
		return nil
	})
}

type remoteWrite struct {
	at           time.Time
	hub, cluster string
}

func (s *stage) remoteWrites(since time.Time) []remoteWrite {
	s.t.Helper()
	var all []remoteWrite
	for _, remote := range s.remotes {
		events, err := remote.AuditEvents(fleet.ByAgent("clusterfx/"), fleet.Since(since), fleet.AuditEvent.Writes)
		must(s.t, err)
		for _, e := range events {
			if parts := strings.Split(e.UserAgent, "/"); len(parts) >= 4 {
				all = append(all, remoteWrite{at: e.Received, hub: parts[1], cluster: parts[2]})
			}
		}
	}
	slices.SortFunc(all, func(a, b remoteWrite) int { return a.at.Compare(b.at) })
	return all
}

// expectPhases fails the test unless the writes to all remotes come from one group of hubs after the other.
func (s *stage) expectPhases(since time.Time, phases ...[]string) {
	s.t.Helper()
	phase, counts := 0, make([]int, len(phases))
	for _, one := range s.remoteWrites(since) {
		if !slices.Contains(phases[phase], one.hub) && phase+1 < len(phases) && slices.Contains(phases[phase+1], one.hub) {
			phase++
		}
		if !slices.Contains(phases[phase], one.hub) {
			s.t.Errorf("%s: %s writes to %s while %v work", one.at.Format(time.StampMicro), one.hub, one.cluster, phases[phase])
		}
		counts[phase]++
	}
	s.t.Logf("writes of %v: %v", phases, counts)
	if phase != len(phases)-1 {
		s.t.Errorf("the last hubs that have written are %v, want %v", phases[phase], phases[len(phases)-1])
	}
}

// olderHub is a candidate for the Lease of leader mode with the leader election of client-go and nothing else.
type olderHub struct {
	tries atomic.Int64
	led   atomic.Bool
	end   func()
}

func (h *olderHub) count(next func() error) error {
	h.tries.Add(1)
	return next()
}

// countedLock counts the reads of the Lease.
type countedLock struct {
	resourcelock.Interface
	hub *olderHub
}

func (l countedLock) Get(ctx context.Context) (record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	err = l.hub.count(func() (err error) {
		record, raw, err = l.Interface.Get(ctx)
		return err
	})
	return record, raw, err
}

func (s *stage) startOlder() *olderHub {
	s.t.Helper()
	h := &olderHub{}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, leaderLease().Namespace, leaderLease().Name,
		resourcelock.ResourceLockConfig{Identity: "older"}, rest.CopyConfig(s.hub.Config()), 4*time.Second)
	must(s.t, err)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: countedLock{lock, h}, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { h.led.Store(true) }, OnStoppedLeading: func() {},
		},
	})
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { elector.Run(ctx) })
	h.end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	s.t.Cleanup(h.end)
	return h
}

// A hub in leader mode works, and replicas in Sharded mode that start beside it run nothing until it has left. A replica that is
// killed right after the change does not delay the others. Then a hub in leader mode and an older one stand by, until the last
// replica has been killed and its Lease has expired.
func TestSharding_Mode(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/mode TestMode_ThereAndBack")
	t.Parallel()
	s := newStage(t, 4)
	began := time.Now()
	s.startWith(settings{Name: "first", Leader: true})
	s.expectHolder("first_")
	s.expectWrites("first")
	beside := time.Now()
	for _, name := range []string{"a", "b", "c"} {
		s.start(name)
	}
	for _, name := range []string{"a", "b", "c"} {
		s.expectReadyNote(name, "waits for the hub in leader mode first_")
	}
	s.expectWrites("first")
	for hub, what := range s.agentsSince(beside) {
		testkit.Equal(t, hub, "first", "the writer beside a hub in leader mode of", what)
	}

	s.replicas["first"].leave()
	s.expectHolder(installationHolds)
	s.replicas["c"].kill()
	s.expectWriters("a", "b")

	older := s.startOlder()
	s.startWith(settings{Name: "last", Leader: true})
	s.expectReads("last")
	s.expectReadyNote("last", "until none of these runs: a, b;")
	tries := older.tries.Load()
	eventually(t, func() error {
		if n := older.tries.Load() - tries; n < 20 { // which takes longer than its own lease
			return fmt.Errorf("the older hub has tried %d times", n)
		}
		return nil
	})
	must(t, s.admin.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: leaderLease()})) // which the finalizer prevents
	s.replicas["a"].leave()
	s.expectReads("last")
	if got := s.leaderHolder(); got != installationHolds || older.led.Load() {
		t.Errorf("the Lease of leader mode is held by %s while b runs, want %s", got, installationHolds)
	}
	older.end()
	killed := time.Now()
	s.replicas["b"].kill()
	s.expectHolder("last_")
	s.expectWrites("last")
	t.Logf("a hub in leader mode works %s after the last replica was killed", time.Since(killed))
	s.expectPhases(began, []string{"first"}, []string{"a", "b", "c"}, []string{"last"})
}
