// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// outage is how long the hub's API server is away.
func outage() time.Duration {
	if allFaults() {
		return 3 * time.Minute
	}
	return 20 * time.Second
}

// lone is one hub that writes, with a hub's cluster and a remote of its own.
type lone struct {
	*program
	hub, edge *fleet.Cluster
	replica   string
}

func startLone(t *testing.T, f *fleet.Fleet, replica string, args ...string) *lone {
	t.Helper()
	l := &lone{replica: replica}
	var creating sync.WaitGroup
	creating.Go(func() { l.hub = create(t, f, replica+"-hub") })
	creating.Go(func() { l.edge = create(t, f, replica+"-edge") })
	creating.Wait()
	kubeconfig := install(t, l.hub)
	must(t, clientFor(t, l.hub).Create(t.Context(), registration("edge", l.edge)))
	l.program = startWriter(t, replica, append([]string{
		"run", "--kubeconfig=" + kubeconfig, "--allow-cidr=127.0.0.0/8", "--replica-name=" + replica,
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, args...)...)
	l.expectReady()
	l.expectWrite(time.Time{})
	return l
}

// expectReady waits until the Cluster says that it is Ready.
func (l *lone) expectReady() {
	l.t.Helper()
	l.expectCondition(hubv1.ConditionReady, hubv1.ReasonReady)
}

// expectCondition waits until a condition of the Cluster has this reason.
func (l *lone) expectCondition(condition, reason string) {
	l.t.Helper()
	c := clientFor(l.t, l.hub)
	eventually(l.t, func() error {
		var cluster hubv1.Cluster
		if err := c.Get(l.t.Context(), client.ObjectKey{Name: "edge"}, &cluster); err != nil {
			return err
		}
		if got := meta.FindStatusCondition(cluster.Status.Conditions, condition); got == nil || got.Reason != reason {
			return fmt.Errorf("%s is %+v", condition, got)
		}
		return nil
	})
}

// expectWrite waits until the remote has a write that the hub had the idea of after a time.
func (l *lone) expectWrite(after time.Time) {
	l.t.Helper()
	eventually(l.t, func() error {
		w, err := lastWrite(l.t, l.edge, remoteConfigMap(l.replica))
		if err == nil && (w.By != l.cmd.Process.Pid || !w.Issued.After(after)) {
			err = fmt.Errorf("the last write is %+v", w)
		}
		return err
	})
}

// expectTerms fails unless the hub is in this term.
func (l *lone) expectTerms(want int) {
	l.t.Helper()
	if got := 1 + strings.Count(l.stderr.String(), "The hub lost its lease"); got != want {
		l.t.Errorf("the hub is in term %d, not %d", got, want)
	}
}

// writes returns when the remote was written to, by the number of the epoch that did.
func (l *lone) writes() map[string][]time.Time {
	l.t.Helper()
	prefix := "clusterfx/" + l.replica + "/edge/"
	events, err := l.edge.AuditEvents(fleet.AuditEvent.Writes, fleet.ByAgent(prefix))
	must(l.t, err)
	all := map[string][]time.Time{}
	for _, e := range events {
		epoch := strings.TrimPrefix(e.UserAgent, prefix)
		all[epoch] = append(all[epoch], e.Received)
	}
	return all
}

// A hub that is alone works on when its own API server is gone, and carries out what it is told when
// that is back. Nothing is restarted. (F53)
func TestOutage_Alone(t *testing.T) {
	t.Parallel()
	l := startLone(t, fleettest.New(t, fleet.Options{Audit: true}), "alone")
	must(t, l.hub.Kill())
	begin := time.Now()
	pause(outage())
	l.expectWrite(time.Now())
	must(t, l.hub.Restart(t.Context()))
	c := clientFor(t, l.hub)
	back := time.Now()
	must(t, c.Delete(t.Context(), registration("edge", l.edge)))
	var cluster hubv1.Cluster
	must(t, c.Get(t.Context(), client.ObjectKey{Name: "edge"}, &cluster))
	must(t, c.Delete(t.Context(), &cluster))
	eventually(t, func() error {
		if err := c.Get(t.Context(), client.ObjectKey{Name: "edge"}, &cluster); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the Cluster is still there: %w", err)
		}
		return nil
	})
	t.Logf("a Cluster that was deleted after an outage of %s was gone after %s", back.Sub(begin).Round(time.Second), time.Since(back).Round(time.Second/10))
	if epochs := l.writes(); len(epochs) != 1 {
		t.Errorf("the app was started %d times", len(epochs))
	}
	l.signal(syscall.SIGTERM)
	l.expectExit(0)
}

// A hub that has to be elected does not notice a short silence of its API server. In a long one its
// remotes see no write after the deadline of its lease; the process stays, and works again in a new
// term. (F54)
func TestOutage_Elected(t *testing.T) {
	t.Parallel()
	l := startLone(t, fleettest.New(t, fleet.Options{Audit: true}), "elected", "--leader-elect")
	must(t, l.hub.Pause())
	pause(5 * time.Second)
	must(t, l.hub.Resume())
	pause(3 * time.Second) // for a renewal
	l.expectWrite(time.Now())
	l.expectTerms(1)

	must(t, l.hub.Pause())
	begin := time.Now()
	pause(outage())
	must(t, l.hub.Resume())
	back := time.Now()
	l.expectWrite(back)
	working := time.Now()
	l.expectReady()
	// The lease was renewed at the latest when the outage began.
	last := begin
	for _, at := range slices.Concat(slices.Collect(maps.Values(l.writes()))...) {
		if at.Before(back) && at.After(last) {
			last = at
		}
	}
	l.expectTerms(2)
	silent := last.Sub(begin)
	if silent > 11*time.Second {
		t.Errorf("the last write of the first term came in %s after the API server fell silent", silent)
	}
	t.Logf("the last write came in %s after the hub's API server fell silent; the first one %s after it was back",
		silent.Round(time.Second/10), working.Sub(back).Round(time.Second/10))
	l.signal(syscall.SIGTERM)
	l.expectExit(0)
}
