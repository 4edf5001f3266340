// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

const (
	outage     = 3 * time.Minute // of the hub's API server
	suspension = time.Minute     // of a hub
)

// lone is a hub with the module writer, a hub's cluster and a remote of its own.
type lone struct {
	*program
	hub, edge *fleet.Cluster
	replica   string
}

func startLone(t *testing.T, hub, edge *fleet.Cluster) *lone {
	t.Helper()
	l := &lone{replica: "alone", hub: hub, edge: edge}
	kubeconfig, c := install(t, hub), clientFor(t, hub)
	must(t, c.Create(t.Context(), registration("edge", edge)))
	l.program = startWriter(t, l.replica, quiet(kubeconfig, "--replica-name="+l.replica)...)
	eventually(t, func() error {
		var cluster hubv1.Cluster
		if err := c.Get(t.Context(), client.ObjectKey{Name: "edge"}, &cluster); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, hubv1.ConditionReady) {
			return fmt.Errorf("the Cluster is %+v", cluster.Status)
		}
		return nil
	})
	l.expectWrite(time.Time{})
	return l
}

// expectWrite waits until the remote has a write that the hub issued after this time.
func (l *lone) expectWrite(after time.Time) {
	l.t.Helper()
	c := clientFor(l.t, l.edge)
	eventually(l.t, func() error {
		w, err := lastWrite(l.t.Context(), c, remoteConfigMap(l.replica))
		if err == nil && (w.By != l.cmd.Process.Pid || !w.Issued.After(after)) {
			err = fmt.Errorf("the last write is %+v", w)
		}
		return err
	})
}

// epochs returns the numbers of the epochs that have written to the remote.
func (l *lone) epochs() map[string]bool {
	l.t.Helper()
	prefix := "clusterfx/" + l.replica + "/edge/"
	events, err := l.edge.AuditEvents(fleet.AuditEvent.Writes, fleet.ByAgent(prefix))
	must(l.t, err)
	all := map[string]bool{}
	for _, e := range events {
		all[strings.TrimPrefix(e.UserAgent, prefix)] = true
	}
	return all
}

// A hub keeps its app, which writes, through a suspension, as on a machine that sleeps, and through the death of its API server.
func TestRun_HubAway(t *testing.T) {
	fleettest.Slow(t, "nothing: informers need minutes to notice that an API server has died")
	t.Parallel()
	clusters := createAll(t, fleettest.New(t, fleet.Options{Audit: true}), "hub", "edge")
	alone := startLone(t, clusters[0], clusters[1])
	alone.signal(syscall.SIGSTOP)
	pause(suspension)
	resumed := time.Now()
	alone.signal(syscall.SIGCONT)
	alone.expectWrite(resumed)
	alone.expectUndisturbed(resumed)

	must(t, alone.hub.Kill())
	pause(outage)
	alone.expectWrite(time.Now())
	must(t, alone.hub.Restart(t.Context()))
	alone.expectObeys()
	if epochs := alone.epochs(); len(epochs) != 1 {
		t.Errorf("the app is started %d times, want once", len(epochs))
	}
	alone.signal(syscall.SIGTERM)
	alone.expectExit(0)
}

// expectUndisturbed fails the test if the hub reports its Cluster as not ready after a suspension (F50).
func (l *lone) expectUndisturbed(resumed time.Time) {
	l.t.Helper()
	l.t.Logf("the first write to the remote is %s after the suspension", time.Since(resumed).Round(time.Millisecond))
	pause(6 * time.Second) // more than a period of the probe
	statuses, err := l.hub.AuditEvents(fleet.Since(resumed), fleet.ByAgent("clusterfx/"+l.replica), func(e fleet.AuditEvent) bool {
		return e.Object.Resource == "clusters" && e.Object.Subresource == "status"
	})
	must(l.t, err)
	for _, e := range statuses {
		var cluster hubv1.Cluster
		must(l.t, json.Unmarshal(e.Body, &cluster))
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, hubv1.ConditionReady) {
			l.t.Errorf("the hub reports the Cluster as not ready: %s", e.Body)
		}
	}
}

// expectObeys fails the test unless the hub soon handles a deletion when its API server is back (F53). Its informers
// alone would need a minute.
func (l *lone) expectObeys() {
	l.t.Helper()
	begin, c := time.Now(), clientFor(l.t, l.hub)
	must(l.t, c.Delete(l.t.Context(), registration("edge", l.edge)))
	must(l.t, c.Delete(l.t.Context(), clusterNamed("edge")))
	eventually(l.t, func() error {
		err := c.Get(l.t.Context(), client.ObjectKey{Name: "edge"}, &hubv1.Cluster{})
		if err == nil {
			return errors.New("the Cluster is still there")
		}
		return client.IgnoreNotFound(err)
	})
	took := time.Since(begin)
	l.t.Logf("a Cluster that is deleted after the hub's API server is back is gone after %s", took.Round(time.Second/10))
	if took > 25*time.Second {
		l.t.Error("the removal of the Cluster takes longer than 25 seconds")
	}
}
