// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }

const (
	namespace = metav1.NamespaceDefault
	// patience is the time that a test waits for a condition that takes some seconds.
	patience = 2 * time.Minute
)

// candidate is a candidacy in a goroutine.
type candidate struct {
	*Candidacy
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
}

func stand(t *testing.T, c *fleet.Cluster, identity string) *candidate {
	t.Helper()
	return standWith(t, c.Config(), identity)
}

func standWith(t *testing.T, config *rest.Config, identity string) *candidate {
	t.Helper()
	return standWhile(t, config, identity, nil)
}

// standWhile begins the candidacy of a hub that makes progress while alive returns nil.
func standWhile(t *testing.T, config *rest.Config, identity string, alive func() error) *candidate {
	t.Helper()
	return begin(t, Options{
		Alive: alive, Config: config, Identity: identity,
		Duration: 4 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond,
	})
}

func begin(t *testing.T, o Options) *candidate {
	t.Helper()
	o.Namespace, o.Name = namespace, leaseName(t)
	candidacy, err := New(o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	one := &candidate{Candidacy: candidacy, t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(one.done)
		candidacy.Run(ctx)
	}()
	t.Cleanup(func() { one.end() })
	candidacy.ask()
	return one
}

func (c *candidate) end() {
	c.cancel()
	<-c.done
}

func leaseName(t *testing.T) string {
	t.Helper()
	return strings.ToLower(strings.NewReplacer("_", "-", "/", "-").Replace(t.Name()))
}

// expect waits until the channel is closed, and returns the time that this takes.
func (c *candidate) expect(what <-chan struct{}) time.Duration {
	c.t.Helper()
	begin := time.Now()
	select {
	case <-what:
	case <-time.After(patience):
		c.t.Fatal("the channel is not closed")
	}
	return time.Since(begin)
}

// expectClosed fails the test unless the gate is closed.
func (c *candidate) expectClosed() {
	c.t.Helper()
	testkit.ErrorIs(c.t, c.Check(), ErrNotLeader, "the gate")
}

// A hub that makes no progress for a moment keeps the lease. A hub that makes no progress for longer does not renew the
// lease: the lease is lost in time, the gate is closed, and another hub gets the lease when it has expired.
func TestCandidacy_NoProgress(t *testing.T) {
	t.Parallel()
	server := fleettest.Cluster(t, "hub")
	var stuck atomic.Bool
	var asked atomic.Int64
	first := standWhile(t, server.Config(), "first", func() error {
		asked.Add(1)
		if stuck.Load() {
			return errors.New("no progress")
		}
		return nil
	})
	first.expect(first.Held())
	stuck.Store(true)
	n := asked.Load() + 3
	testkit.Until(t, "three more questions", func() bool { return asked.Load() >= n })
	stuck.Store(false)
	must(t, first.Check())

	stuck.Store(true)
	if took := first.expect(first.Lost()); took > 10*time.Second {
		t.Errorf("the lease is lost after %s", took)
	}
	first.expectClosed()
	second := stand(t, server, "second")
	second.expect(second.Held())
}

// A hub is late when it has not renewed the lease for two periods, until the next renewal. It is not late without the lease.
func TestCandidacy_Late(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	hub := begin(t, Options{
		Config: fleettest.Cluster(t, "hub").Config(), Identity: "hub",
		Duration: 3 * patience, RenewDeadline: 2 * patience, RetryPeriod: 100 * time.Millisecond,
		Alive: func() error {
			if stuck.Load() {
				return errors.New("no progress")
			}
			return nil
		},
	})
	hub.expect(hub.Held())
	stuck.Store(true)
	testkit.Until(t, "the hub is late", hub.IsLate)
	must(t, hub.Check())
	stuck.Store(false)
	testkit.Until(t, "the hub is not late", func() bool { return !hub.IsLate() })
	stuck.Store(true)
	testkit.Until(t, "the hub is late", hub.IsLate)
	hub.Forfeit()
	if hub.IsLate() {
		t.Error("a hub without the lease is late")
	}
}

func TestCandidacy_HandOver(t *testing.T) {
	t.Parallel()
	server := fleettest.Cluster(t, "hub")
	first := stand(t, server, "first")
	first.expect(first.Held())
	must(t, first.Check())

	second := stand(t, server, "second")
	turn := make(chan error)
	go func() {
		_, _, err := second.Turn().Get(t.Context())
		turn <- err
	}()
	second.expectClosed()
	first.end()
	must(t, first.Check()) // It has the lease until GiveBack.
	must(t, first.GiveBack(t.Context()))
	first.expectClosed()
	first.expect(first.Lost())
	if took := second.expect(second.Held()); took > 2*time.Second {
		t.Errorf("a released lease is acquired after %s", took)
	}
	must(t, second.Check())
	if err := <-turn; !apierrors.IsNotFound(err) {
		t.Errorf("the manager's Get returns %v", err)
	}

	// A candidacy that has not released its lease may acquire it again, and a forfeit is not a release.
	second.Forfeit()
	second.expectClosed()
	must(t, second.GiveBack(t.Context()))
	if got := holder(t, server); got != "second" {
		t.Errorf("a forfeited lease is held by %q, want second", got)
	}
	again := stand(t, server, "second")
	if took := again.expect(again.Held()); took > 2*time.Second {
		t.Errorf("its own lease is acquired again after %s", took)
	}
}

// A hub keeps the lease if the API server is silent for less than the deadline. If the API server is silent for longer,
// the gate closes in time, and then the lease is lost.
func TestCandidacy_Silence(t *testing.T) {
	t.Parallel()
	server := fleettest.Cluster(t, "silent")
	c := stand(t, server, "one")
	c.expect(c.Held())

	must(t, server.Pause())
	before, since := *c.renewed.Load(), time.Now()
	testkit.Until(t, "a second has passed", func() bool { return time.Since(since) > time.Second })
	must(t, server.Resume())
	testkit.Until(t, "the lease is renewed", func() bool { return *c.renewed.Load() != before })
	must(t, c.Check())

	must(t, server.Pause())
	defer func() { must(t, server.Resume()) }()
	last := *c.renewed.Load()
	testkit.Until(t, "the gate is closed", func() bool { return c.Check() != nil })
	if age := present().since(last); age > 3*time.Second {
		t.Errorf("the gate closes %s after the last renewal", age)
	}
	select {
	case <-c.Lost():
		t.Error("the lease is lost before the gate closes")
	default:
	}
	c.expect(c.Lost())
	<-c.done
	c.expectClosed()
}

// slow sends requests, and delays the responses to writes.
type slow struct {
	next http.RoundTripper
	by   time.Duration
}

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(r)
	if r.Method != http.MethodGet {
		<-time.After(s.by)
	}
	return response, err
}

// A renewal counts from the moment at which it is sent: other hubs count from the moment at which the API server has it.
func TestCandidacy_SlowRenewal(t *testing.T) {
	t.Parallel()
	const by = 500 * time.Millisecond
	config := fleettest.Cluster(t, "hub").Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &slow{next, by} })
	c := standWith(t, config, "one")
	c.expect(c.Held())
	for range 3 {
		last := *c.renewed.Load()
		if age := present().since(last); age < by {
			t.Errorf("a renewal that takes %s is %s old", by, age)
		}
		testkit.Until(t, "the lease is renewed", func() bool { return *c.renewed.Load() != last })
	}
}

// A new holder keeps the lease, and the old holder notices the loss within a second.
func TestCandidacy_Deposed(t *testing.T) {
	t.Parallel()
	server := fleettest.Cluster(t, "hub")
	c := stand(t, server, "old")
	c.expect(c.Held())
	testkit.Until(t, "the lease is taken", func() bool { return take(t, server, "new") == nil })
	if took := c.expect(c.Lost()); took > time.Second {
		t.Errorf("the loss is noticed after %s", took)
	}
	c.expectClosed()
	<-c.done
	must(t, c.GiveBack(t.Context()))
	if got := holder(t, server); got != "new" {
		t.Errorf("the lease is held by %q, want new", got)
	}
}

// A renewal after the end of a candidacy does not open the gate again.
func TestCandidacy_RenewalAfterTheEnd(t *testing.T) {
	t.Parallel()
	server := fleettest.Cluster(t, "hub")
	for name, end := range map[string]func(*candidate){
		"forfeit": func(c *candidate) { c.Forfeit() },
		"loss":    func(c *candidate) { c.end(); c.Candidacy.end() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := stand(t, server, "one")
			c.expect(c.Held())
			end(c)
			c.renew(present())
			c.expectClosed()
		})
	}
}

func TestInstant(t *testing.T) {
	t.Parallel()
	now := present()
	slept := instant{monotonic: now.monotonic, wall: now.wall.Add(time.Hour)}
	setBack := instant{monotonic: now.monotonic.Add(time.Minute), wall: now.wall.Add(-time.Hour)}
	if got := slept.since(now); got != time.Hour {
		t.Errorf("after a sleep of the machine: %s", got)
	}
	if got := setBack.since(now); got != time.Minute {
		t.Errorf("after the wall clock was set back: %s", got)
	}
}

func kube(t *testing.T, c *fleet.Cluster) kubernetes.Interface {
	t.Helper()
	set, err := kubernetes.NewForConfig(c.Config())
	must(t, err)
	return set
}

func holder(t *testing.T, c *fleet.Cluster) string {
	t.Helper()
	lease, err := kube(t, c).CoordinationV1().Leases(namespace).Get(t.Context(), leaseName(t), metav1.GetOptions{})
	must(t, err)
	return *lease.Spec.HolderIdentity
}

// take overwrites the lease. It returns an error if the holder writes first.
func take(t *testing.T, c *fleet.Cluster, identity string) error {
	t.Helper()
	leases := kube(t, c).CoordinationV1().Leases(namespace)
	lease, err := leases.Get(t.Context(), leaseName(t), metav1.GetOptions{})
	must(t, err)
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &identity, RenewTime: &metav1.MicroTime{Time: time.Now()},
		LeaseDurationSeconds: lease.Spec.LeaseDurationSeconds,
	}
	_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	return err
}

var must = testkit.Must
