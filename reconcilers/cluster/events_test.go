// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// stage is a Cluster that is Ready, and the things that a test can change about it.
type stage struct {
	*hub
	name   string
	remote *fleet.Cluster
	proxy  *fault.Proxy      // between the hub and the remote
	token  *fleet.Credential // in use
	moods  *moods
}

// moods let a test fail a module of a remote.
type moods struct{ of sync.Map }

func (m *moods) fail(name string) {
	mood, _ := m.of.LoadOrStore(name, make(chan error))
	mood.(chan error) <- errors.New("in a bad mood")
}

func (m *moods) module(name string) registry.Module {
	return registry.NewModule(name, registry.ModuleOptions{Remote: fx.Invoke(func(name registry.ClusterName, mgr ctrl.Manager) error {
		mood, _ := m.of.LoadOrStore(string(name), make(chan error))
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			select {
			case err := <-mood.(chan error):
				return err
			case <-ctx.Done():
				return nil
			}
		}))
	})})
}

// change is a change of a Cluster, and the events about it.
type change struct {
	happens func(*stage)
	want    []string
}

func changes() map[string]change {
	set := func(state hubv1.ClusterState) func(c *hubv1.Cluster) {
		return func(c *hubv1.Cluster) { c.Spec.State = state }
	}
	return map[string]change{
		"nothing":              {func(*stage) {}, nil},
		"an outage":            {(*stage).outage, []string{"Warning Unreachable", "Normal Ready"}},
		"rejected credentials": {(*stage).reject, []string{"Warning Unauthorized", "Normal CredentialsRotated", "Normal Ready"}},
		"another credential": {
			func(s *stage) {
				s.give(s.mint("next", 2*longLife))
				s.expectRotated()
			},
			[]string{"Normal CredentialsRotated"},
		},
		"a Secret that is no good, and is good again": {
			func(s *stage) {
				s.putKubeconfig(s.name, []byte("hello"))
				s.expect(s.name, hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonInvalidKubeconfig)
				s.give(s.token)
				s.expectReady(s.name)
			},
			[]string{"Warning InvalidKubeconfig", "Normal Ready"},
		},
		"another cluster, which is accepted": {(*stage).becomeAnother, []string{
			"Normal CredentialsRotated", "Warning IdentityChanged", "Normal IdentityAccepted", "Normal Ready",
		}},
		"a pause": {
			func(s *stage) {
				s.change(s.name, set(hubv1.ClusterPaused))
				s.expect(s.name, hubv1.ConditionReady, metav1.ConditionUnknown, hubv1.ReasonPaused)
				s.change(s.name, set(hubv1.ClusterActive))
				s.expectReady(s.name)
			},
			[]string{"Normal Paused", "Normal Resumed", "Normal Ready"},
		},
		"a module that fails, and runs again": {
			func(s *stage) {
				s.moods.fail(s.name)
				s.expect(s.name, hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonModuleFailed)
				s.expectReady(s.name)
			},
			[]string{"Warning ModuleFailed", "Normal Ready"},
		},
		"its end": {
			func(s *stage) {
				s.remove(s.name)
				s.expectGone(s.name)
			},
			[]string{"Normal Deregistered"},
		},
	}
}

// Every transition of a Cluster has an event, and only transitions have events. TestCluster_CredentialsExpire has the
// events that depend on time.
func TestCluster_EventsOfTransitions(t *testing.T) {
	t.Parallel()
	moody := &moods{}
	h := newHub(t, func(o *hubOptions) { o.modules = []registry.Module{moody.module("moody")} })
	remote := fleettest.Cluster(t, "one")
	number := 0
	for name, c := range changes() {
		number++
		id := h.name(fmt.Sprint(number))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := *h
			mine.t = t
			s := newStage(&mine, id, remote)
			s.moods = moody
			before := []string{"Normal Ready"}
			s.expectTold(before)
			c.happens(s)
			s.expectTold(append(before, c.want...))
		})
	}
}

// An event storm creates few objects: a repeated event is counted in the series of the first event.
func TestCluster_EventsOfWhatFlaps(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	s := newStage(h, h.name("a"), fleettest.Cluster(t, "one"))
	set := func(state hubv1.ClusterState, status metav1.ConditionStatus, reason string) {
		s.change(s.name, func(c *hubv1.Cluster) { c.Spec.State = state })
		s.expect(s.name, hubv1.ConditionReady, status, reason)
	}
	const times = 12
	for range times {
		set(hubv1.ClusterPaused, metav1.ConditionUnknown, hubv1.ReasonPaused)
		set(hubv1.ClusterActive, metav1.ConditionTrue, hubv1.ReasonReady)
	}
	for range 2 {
		s.outage()
	}
	kinds := []string{"Normal Ready", "Normal Paused", "Normal Resumed", "Warning Unreachable"}
	h.eventually(func() error {
		all, repeated := s.told(), 0
		for _, e := range all {
			if e.Series != nil {
				repeated++
			}
		}
		if len(all) != len(kinds) || repeated != len(kinds) {
			return fmt.Errorf("got %d objects for %d kinds of events, %d of them series; want a series for each",
				len(all), len(kinds), repeated)
		}
		return sameEvents(distinct(all), kinds)
	})
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

// A failure of another module is a separate event, even if it has the same kind and follows soon after.
func TestCluster_EventsOfModules(t *testing.T) {
	t.Parallel()
	all := map[string]*moods{"moody": {}, "grumpy": {}}
	h := newHub(t, func(o *hubOptions) {
		for name, one := range all {
			o.modules = append(o.modules, one.module(name))
		}
	})
	s := newStage(h, h.name("a"), fleettest.Cluster(t, "one"))
	for name, one := range all {
		one.fail(s.name)
		s.expect(s.name, hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonModuleFailed)
		s.expectReady(s.name)
		h.expectNote(s.name, hubv1.ReasonModuleFailed, `module "`+name+`": in a bad mood`)
	}
}

// A Cluster that crashes the hub has an event when it is quarantined.
func TestCluster_EventsOfQuarantine(t *testing.T) {
	t.Parallel()
	h := newIdleHub(t, nil)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	h.must(os.WriteFile(kubeconfig, prepared.kubeconfig, 0o600))
	culprit := h.name("poison")
	h.putKubeconfig(culprit, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(culprit, nil)
	for range 3 {
		startChild(t, kubeconfig, h.namespace).expectCrash(t)
	}
	last := startChild(t, kubeconfig, h.namespace)
	h.eventually(func() error {
		if got := h.events(culprit); got["Quarantined"] != 1 {
			return fmt.Errorf("got events %v, want one Quarantined", got)
		}
		return nil
	})
	h.must(last.hold.Close())
	if err := <-last.done; err != nil {
		t.Errorf("the hub with the quarantine ended with %v, want no error", err)
	}
}

// A Cluster whose cleanup fails has an event at its end that names the step.
func TestCluster_EventsOfAFailedCleanup(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(o *hubOptions) {
		o.settings.RemoveWithin = time.Second
		o.modules = []registry.Module{hooked("untidy", nil, nil, func(context.Context) error { return errors.New("in a bad mood") })}
	})
	s := newStage(h, h.name("a"), fleettest.Cluster(t, "one"))
	s.remove(s.name)
	s.expectGone(s.name)
	s.expectNote(s.name, "Abandoned", "untidy/everything")
	s.expectTold([]string{"Normal Ready", "Warning Abandoned"})
}

func newStage(h *hub, name string, remote *fleet.Cluster) *stage {
	h.t.Helper()
	proxy, err := fault.New(remote.Server())
	h.must(err)
	h.t.Cleanup(proxy.Close)
	s := &stage{hub: h, name: name, remote: remote, proxy: proxy}
	s.give(s.mint("first", longLife))
	h.newCluster(name, bearABusyMachine)
	h.expectReady(name)
	return s
}

// bearABusyMachine makes the hub wait for a remote that is short of time. A probe or a request that times out is a real
// transition with a separate event, so only the fault under test may cause a transition.
func bearABusyMachine(c *hubv1.Cluster) {
	c.Spec.Probe.PeriodSeconds, c.Spec.Probe.TimeoutSeconds = 20, 20
	c.Spec.Client.TimeoutSeconds = 60
}

func (s *stage) mint(suffix string, lifetime time.Duration) *fleet.Credential {
	s.t.Helper()
	token, err := s.remote.MintToken(s.t.Context(), fleet.User{Name: s.name + "-" + suffix, Rules: everything, Lifetime: lifetime})
	s.must(err)
	return token
}

// give stores a credential in the Secret of the Cluster.
func (s *stage) give(token *fleet.Credential) {
	s.t.Helper()
	s.token = token
	through, err := s.proxy.Kubeconfig(token.Kubeconfig())
	s.must(err)
	s.putKubeconfig(s.name, through)
}

func (s *stage) expectRotated() {
	s.t.Helper()
	s.eventually(func() error {
		if s.events(s.name)["CredentialsRotated"] == 0 {
			return fmt.Errorf("got events %v, want CredentialsRotated", s.events(s.name))
		}
		return nil
	})
}

func (s *stage) outage() {
	s.t.Helper()
	s.must(s.proxy.Set(fault.Refuse()))
	s.expect(s.name, hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonUnreachable)
	s.must(s.proxy.Set(fault.Pass()))
	s.expectReady(s.name)
}

func (s *stage) reject() {
	s.t.Helper()
	s.must(s.token.Revoke(context.WithoutCancel(s.t.Context())))
	s.expect(s.name, hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonUnauthorized)
	s.give(s.mint("heir", longLife))
	s.expectReady(s.name)
}

func (s *stage) becomeAnother() {
	s.t.Helper()
	other := fleettest.Cluster(s.t, "hub")
	s.expect(s.name, hubv1.ConditionIdentityConfirmed, metav1.ConditionTrue, hubv1.ReasonSameCluster)
	s.putKubeconfig(s.name, mint(s.t, other, s.name, longLife))
	s.expect(s.name, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonIdentityChanged)
	s.change(s.name, func(c *hubv1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, hubv1.AnnotationAcceptID, idOf(s.t, other))
	})
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
func (s *stage) expectTold(want []string) {
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

func distinct(all []eventsv1.Event) []string {
	var kinds []string
	for _, e := range all {
		if kind := e.Type + " " + e.Reason; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func sameEvents(got, want []string) error {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}
