// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

var freezes = flag.Int("freezes", 10, "how many times each of ten hubs is frozen")

type freezing struct {
	pairs, rounds int           // of hubs, and for each pair
	frozen        time.Duration // at least; a freeze lasts until the other hub works
}

// The active one of two replicas is frozen for longer than its Lease lasts, and continues after the other one has taken over (F57).
// Until it takes a shard again, the audit logs of the hub and the remote have no write that it issued after it continued, and no
// write that arrived more than a second later. Its process survives.
// Promise: a hub whose lease has expired writes nowhere, also after a freeze.
func TestFreeze_DeposedReplicaWritesNothing(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/shards TestModel_AllRules")
	t.Parallel()
	how := freezing{pairs: 10, rounds: *freezes, frozen: 25 * time.Second}
	f := fleettest.New(t, fleet.Options{Audit: true})
	names := []string{"edge"}
	for i := range how.pairs {
		names = append(names, fmt.Sprintf("hub-%d", i))
	}
	clusters := createAll(t, f, names...)
	var pairs []*pair
	var all errgroup.Group
	for _, hub := range clusters[1:] {
		p := newPair(t, hub, clusters[0])
		pairs = append(pairs, p)
		all.Go(func() error { return p.freezeAll(how) })
	}
	must(t, all.Wait())
	var total verdict
	for _, p := range pairs {
		total.add(p.judge())
	}
	t.Logf("%d active replicas were frozen for %s. Writes that arrived more than 1 s after the replica continued: %d; writes that it "+
		"issued after it continued: %d; writes in flight: %d. The other hub wrote %s after the freeze (median; maximum %s)",
		how.pairs*how.rounds, how.frozen, len(total.late), len(total.afterwards), total.onTheWay,
		total.takeOvers[len(total.takeOvers)/2].Round(100*time.Millisecond), slices.Max(total.takeOvers).Round(100*time.Millisecond))
	for _, e := range slices.Concat(total.late, total.afterwards) {
		t.Errorf("a deposed replica writes: %s", e)
	}
}

// pair is two replicas of a hub, of which one is active, with one remote.
type pair struct {
	t         *testing.T
	name      string
	hub, edge *fleet.Cluster
	remote    client.Client
	programs  map[int]*program // by the ID of the process
	replicas  map[int]string
	freezes   []freeze
}

type freeze struct {
	pid                        int
	frozen, takenOver, resumed time.Time
}

func newPair(t *testing.T, hub, edge *fleet.Cluster) *pair {
	t.Helper()
	p := &pair{
		t: t, name: hub.Name(), hub: hub, edge: edge, remote: clientFor(t, edge),
		programs: map[int]*program{}, replicas: map[int]string{},
	}
	kubeconfig := install(t, hub)
	must(t, clientFor(t, hub).Create(t.Context(), registration("edge", edge)))
	for _, side := range []string{"a", "b"} {
		replica := p.name + "-" + side
		one := startWriter(t, p.name,
			"run", "--kubeconfig="+kubeconfig, "--allow-cidr=127.0.0.0/8", "--replica-name="+replica,
			"--alone=false", "--active-replicas=1", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--log-level=error",
		)
		p.programs[one.cmd.Process.Pid], p.replicas[one.cmd.Process.Pid] = one, replica
	}
	return p
}

func (p *pair) freezeAll(how freezing) error {
	for range how.rounds {
		active, err := p.await(func(w written) bool { return time.Since(w.Issued) < time.Second })
		if err != nil {
			return err
		}
		f := freeze{pid: active.By, frozen: time.Now()}
		if err := p.programs[f.pid].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		if _, err = p.await(func(w written) bool { return w.By != f.pid && w.Issued.After(f.frozen) }); err != nil {
			return err
		}
		f.takenOver = time.Now()
		pause(how.frozen - time.Since(f.frozen))
		f.resumed = time.Now()
		if err := p.programs[f.pid].cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		pause(3 * time.Second) // more than the second that is tolerated
		p.freezes = append(p.freezes, f)
	}
	return nil
}

// pause waits, because these tests depend on real time.
func pause(d time.Duration) { <-time.After(d) }

func (p *pair) await(fits func(written) bool) (written, error) {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		w, err := lastWrite(p.t.Context(), p.remote, remoteConfigMap(p.name))
		if err == nil && fits(w) {
			return w, nil
		}
		if time.Now().After(deadline) {
			return w, errors.Join(fmt.Errorf("%s: no hub writes", p.name), err)
		}
		pause(20 * time.Millisecond)
	}
}

// verdict is the result of the audit logs.
type verdict struct {
	late, afterwards []fleet.AuditEvent
	onTheWay         int
	takeOvers        []time.Duration
}

func (v *verdict) add(more verdict) {
	v.late, v.afterwards = append(v.late, more.late...), append(v.afterwards, more.afterwards...)
	v.onTheWay += more.onTheWay
	v.takeOvers = append(v.takeOvers, more.takeOvers...)
	slices.Sort(v.takeOvers)
}

// judge stops the hubs, and reads the audit logs.
func (p *pair) judge() verdict {
	p.t.Helper()
	var v verdict
	for _, one := range p.programs {
		one.signal(syscall.SIGTERM)
		one.expectExit(0) // Both run: the deposed replica stands by in the same process.
	}
	for _, c := range []*fleet.Cluster{p.hub, p.edge} {
		events, err := c.AuditEvents(fleet.AuditEvent.Writes, fleet.ByAgent("clusterfx/"+p.name+"-"), notOfReplicas)
		must(p.t, err)
		for _, f := range p.freezes {
			v.add(f.judge(events, p.replicas[f.pid], p.worksAgain(f)))
		}
	}
	for _, f := range p.freezes {
		v.takeOvers = append(v.takeOvers, f.takenOver.Sub(f.frozen))
	}
	return v
}

// worksAgain returns the time at which a replica that was frozen next got a shard: it takes one, or another replica hands one over.
func (p *pair) worksAgain(f freeze) time.Time {
	p.t.Helper()
	replica := p.replicas[f.pid]
	events, err := p.hub.AuditEvents(fleet.ByAgent("clusterfx/"+p.name+"-"), fleet.Since(f.resumed), func(e fleet.AuditEvent) bool {
		return e.Object.Resource == "leases" && strings.HasPrefix(e.Object.Name, "clusterfx-shard-") && e.Writes() &&
			e.Response.Code < 300 && strings.Contains(string(e.Body), `"holderIdentity":"`+replica+"-")
	})
	must(p.t, err)
	if len(events) == 0 {
		return time.Now()
	}
	return events[0].Received
}

// notOfReplicas excludes the requests by which replicas share the Clusters: each is a compare-and-swap.
func notOfReplicas(e fleet.AuditEvent) bool {
	return e.Object.Resource != "leases" && e.Object.Name != "clusterfx-assignment"
}

func (f *freeze) judge(events []fleet.AuditEvent, replica string, until time.Time) verdict {
	var v verdict
	for _, e := range events {
		ours := strings.HasPrefix(e.UserAgent, "clusterfx/"+replica+"/") || strings.HasPrefix(e.UserAgent, "clusterfx/"+replica+" ")
		if !ours || e.Received.Before(f.resumed) || e.Received.After(until) {
			continue
		}
		var w written
		switch {
		case e.Received.After(f.resumed.Add(time.Second)):
			v.late = append(v.late, e)
		case w.read(e.Body) == nil && w.Issued.After(f.resumed):
			v.afterwards = append(v.afterwards, e)
		default:
			v.onTheWay++
		}
	}
	return v
}
