// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// stage is a Cluster that is Ready, behind a proxy.
type stage struct {
	*hub
	name   string
	remote *fleet.Cluster
	proxy  *fault.Proxy // between the hub and the remote
}

// Every transition of a Cluster has an event, and only transitions have events. TestTransitions has each kind of transition, and
// TestCluster_CredentialsExpire those that depend on time.
func TestCluster_EventsOfTransitions(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	s := newStage(h, h.name("a"), fleettest.Cluster(t, "one"))
	s.expectTold("Normal Ready")
	s.outage()
	s.expectTold("Normal Ready", "Warning Unreachable", "Normal Ready")
	s.give("next", 2*longLife)
	s.expectTold("Normal Ready", "Warning Unreachable", "Normal Ready", "Normal CredentialsRotated")
	s.remove(s.name)
	s.expectGone(s.name)
	s.expectTold("Normal Ready", "Warning Unreachable", "Normal Ready", "Normal CredentialsRotated", "Normal Deregistered")
}

// A note describes one state: a changed note is a new event, even if it has the same kind and follows soon after.
func TestCluster_EventsOfNotesThatChange(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(o *hubOptions) { o.modules = []registry.Module{idle("first"), idle("second")} })
	s := newStage(h, h.name("a"), fleettest.Cluster(t, "one"))
	h.expectNote(s.name, hubv1.ReasonReady, "2 modules are running")
	s.change(s.name, func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused })
	s.expect(s.name, hubv1.ConditionReady, metav1.ConditionUnknown, hubv1.ReasonPaused)
	s.change(s.name, func(c *hubv1.Cluster) { c.Spec.State, c.Spec.Modules = hubv1.ClusterActive, []string{"first"} })
	s.expectReady(s.name)
	h.expectNote(s.name, hubv1.ReasonReady, "1 module is running")
}

func newStage(h *hub, name string, remote *fleet.Cluster) *stage {
	h.t.Helper()
	proxy, err := fault.New(remote.Server())
	h.must(err)
	h.t.Cleanup(proxy.Close)
	s := &stage{hub: h, name: name, remote: remote, proxy: proxy}
	s.give("first", longLife)
	h.newCluster(name, bearABusyMachine)
	h.expectReady(name)
	return s
}

// give stores a new credential in the Secret of the Cluster.
func (s *stage) give(suffix string, lifetime time.Duration) {
	s.t.Helper()
	through, err := s.proxy.Kubeconfig(mint(s.t, s.remote, s.name+"-"+suffix, lifetime))
	s.must(err)
	s.putKubeconfig(s.name, through)
}

// bearABusyMachine makes the hub wait for a remote that is short of time. A probe or a request that times out is a real
// transition with a separate event, so only the fault under test may cause a transition.
func bearABusyMachine(c *hubv1.Cluster) {
	c.Spec.Probe.PeriodSeconds, c.Spec.Probe.TimeoutSeconds, c.Spec.Probe.FailureThreshold = 6, 6, 1
	c.Spec.Client.TimeoutSeconds = 60
}

func (s *stage) outage() {
	s.t.Helper()
	s.must(s.proxy.Set(fault.Refuse()))
	s.expect(s.name, hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonUnreachable)
	s.must(s.proxy.Set(fault.Pass()))
	s.expectReady(s.name)
}

// told returns the events of the Cluster in the order of their times.
func (s *stage) told() []eventsv1.Event {
	s.t.Helper()
	var all eventsv1.EventList
	s.must(s.List(s.t.Context(), &all))
	mine := slices.DeleteFunc(all.Items, func(e eventsv1.Event) bool { return e.Regarding.Name != s.name || e.Reason == "Registered" })
	slices.SortFunc(mine, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return mine
}

// expectTold waits until exactly these events are recorded, and checks that for a moment longer. The first events of
// each kind have happened in this order.
func (s *stage) expectTold(want ...string) {
	s.t.Helper()
	counts := map[string]int{}
	for _, one := range want {
		counts[one]++
	}
	check := func() error {
		got := map[string]int{}
		for _, e := range s.told() {
			got[e.Type+" "+e.Reason]++
			if e.Series != nil {
				got[e.Type+" "+e.Reason] += int(e.Series.Count) - 1
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(counts) {
			return fmt.Errorf("events of %s: got %v, want %v: %s", s.name, got, counts, notes(s.told()))
		}
		return s.inOrder(want)
	}
	s.eventually(check)
	s.consistently(500*time.Millisecond, check)
}

// inOrder returns an error unless the first events of each kind have happened in an order.
func (s *stage) inOrder(kinds []string) error {
	first := map[string]time.Time{}
	for _, e := range s.told() {
		if kind := e.Type + " " + e.Reason; first[kind].IsZero() {
			first[kind] = e.EventTime.Time
		}
	}
	for i, kind := range kinds[1:] {
		if !slices.Contains(kinds[:i+1], kind) && first[kind].Before(first[kinds[i]]) {
			return fmt.Errorf("%s: the event %s at %s is before %s at %s", s.name, kind, first[kind], kinds[i], first[kinds[i]])
		}
	}
	return nil
}

func notes(all []eventsv1.Event) string {
	var text strings.Builder
	for _, e := range all {
		_, _ = fmt.Fprintf(&text, "\n%s: %s", e.Reason, e.Note)
	}
	return text.String()
}
