// SPDX-License-Identifier: Apache-2.0

package entities_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

// A process that ends before any of its writes leaves nothing that the next one does not finish. To end before a write is to end after
// the write before it.
// Promise: the process ends before or after each of its writes: the next one converges.
func TestProcess_EndsBeforeEachWrite(t *testing.T) {
	fleettest.Slow(t, "nothing: an end before each single write takes a process for each of them")
	t.Parallel()
	s := newStage(t)
	for n := range int64(25) {
		text := fmt.Sprint("text ", n)
		s.put(t, "a", text)
		s.put(t, fmt.Sprint("b", n), text)
		if n > 0 {
			s.delete(t, fmt.Sprint("b", n-1))
		}
		p := s.process(t, func(of *settings) { of.DieBefore = n + 1 })
		<-p.done // Canaries are writes, too, so each process ends.
		p = s.process(t, nil)
		s.converge(t, map[string]string{"a": text, fmt.Sprint("b", n): text})
		p.kill()
	}
}

// A process that is killed at random moments, while orders change, converges, and leaves no consumers on the stream: after a while there
// are as many as live watches.
// Promise: it is killed at random: it converges, and leaves no consumers.
func TestProcess_KilledAtRandom(t *testing.T) {
	fleettest.Slow(t, "./reconcilers/entity/bucket TestBucket_LeavesNoConsumers")
	t.Parallel()
	s := newStage(t)
	const kills = 50
	random := rand.New(rand.NewPCG(1, kills)) //nolint:gosec // The test is repeatable.
	want := map[string]string{}
	for n := range kills {
		p := s.process(t, nil)
		end := time.After(time.Duration(random.IntN(1500)) * time.Millisecond)
		for running := true; running; {
			key := fmt.Sprint("o", random.IntN(12))
			if random.IntN(3) == 0 {
				s.delete(t, key)
				delete(want, key)
			} else {
				want[key] = fmt.Sprint("text ", n, random.IntN(100))
				s.put(t, key, want[key])
			}
			select {
			case <-end:
				running = false
			default:
			}
		}
		p.kill()
	}
	s.compact(t)
	s.process(t, nil)
	s.converge(t, want)
	took := eventually(t, func() error {
		d, err := bucket.Describe(t.Context(), s.js, ordersBucket, hubID)
		if err == nil && d.Consumers != 1 {
			err = fmt.Errorf("there are %d consumers, want that of the process", d.Consumers)
		}
		return err
	})
	t.Logf("after %d kills the consumers were back to one within %s", kills, took.Round(time.Millisecond))
}

// A process that is frozen while orders change, and while their markers are compacted, follows when it runs again: nothing is deleted by
// mistake, and each deletion is carried out.
// Promise: it is frozen for a minute, and markers are compacted meanwhile: it follows, and carries out the deletions.
func TestProcess_Frozen(t *testing.T) {
	fleettest.Slow(t, "./reconcilers/entity/bucket TestBucket_RemembersMarkers")
	t.Parallel()
	s := newStage(t)
	all := orders(5, "before")
	s.putAll(t, all)
	p := s.process(t, nil)
	s.converge(t, all)
	p.freeze()
	s.delete(t, "o0")
	s.compact(t)
	delete(all, "o0")
	all["o1"], all["new"] = "after", "after"
	s.putAll(t, all)
	<-time.After(time.Minute) // Longer than a watch may be silent.
	p.thaw()
	t.Logf("followed within %s of the thaw", s.converge(t, all).Round(time.Millisecond))
}

// The leader of three servers is killed, and then comes back: the process follows all the time.
// Promise: the leader of three servers is killed: the process follows all the time.
func TestServers_LeaderKilled(t *testing.T) {
	fleettest.Slow(t, "./reconcilers/entity/bucket TestD9_TheCopySurvivesTheServer")
	t.Parallel()
	servers := nats.StartCluster(t, 3)
	s := newStage(t, servers...)
	var urls string
	for _, one := range servers {
		urls += "," + one.URL()
	}
	s.url = urls[1:]
	_, s.js = nats.Connect(t, s.url)
	all := orders(5, "before")
	s.putAll(t, all)
	s.process(t, nil)
	s.converge(t, all)
	leader := s.leaderOf(t, servers)
	leader.Kill()
	all["o1"], all["new"] = "after", "after"
	s.putAll(t, all)
	t.Logf("followed within %s of the end of the leader", s.converge(t, all).Round(time.Millisecond))
	leader.Restart()
	s.delete(t, "o0")
	delete(all, "o0")
	s.converge(t, all)
}

// leaderOf returns the server that leads the stream of the orders.
func (s *stage) leaderOf(t *testing.T, servers []*nats.Server) *nats.Server {
	t.Helper()
	var leader *nats.Server
	eventually(t, func() error {
		stream, err := s.js.Stream(t.Context(), "KV_"+ordersBucket)
		if err != nil {
			return err
		}
		info, err := stream.Info(t.Context())
		if err != nil {
			return err
		}
		for i, one := range servers {
			if info.Cluster != nil && info.Cluster.Leader == fmt.Sprintf("s%d", i) {
				leader = one
				return nil
			}
		}
		return errors.New("the stream has no leader")
	})
	return leader
}

// The network between the process and NATS is cut, in ways that the process notices and in ways that it does not.
// Promise: the network is cut, in six ways: the process follows after the return.
func TestNetwork_Cut(t *testing.T) {
	fleettest.Slow(t, "./reconcilers/entity/bucket TestD9_TheCopySurvivesTheServer")
	t.Parallel()
	s := newStage(t)
	proxy := fleettest.Proxy(t, s.server.Address())
	s.url = "nats://" + proxy.Addr()
	all := orders(5, "before")
	s.putAll(t, all)
	s.process(t, nil)
	s.converge(t, all)
	for _, f := range []fault.Fault{
		fault.Refuse(), fault.Blackhole(), fault.Reset(), fault.LoseAnswers(), fault.LoseRequests(), fault.CutAfter(1000),
	} {
		must(t, proxy.Set(f))
		key := fmt.Sprint("o", len(all))
		s.delete(t, "o1")
		all["o1"], all[key] = f.String(), f.String()
		s.putAll(t, all)
		<-time.After(20 * time.Second) // longer than a watch may be silent
		must(t, proxy.Set(fault.Pass()))
		t.Logf("%s: followed within %s of the return", f, s.converge(t, all).Round(time.Millisecond))
	}
}

// The server is killed and starts again, with its data, empty, and with the data of a backup. Nothing is deleted by mistake; what is
// there is followed; after the bucket is accepted, nothing is orphaned.
// Promise: the server starts with its data, restored, and empty: nothing is deleted by mistake; nothing is orphaned after accept.
func TestServer_Comes(t *testing.T) {
	fleettest.Slow(t, "./reconcilers/entity/bucket TestBucket_Restored")
	t.Parallel()
	s := newStage(t)
	all := orders(5, "before")
	s.putAll(t, all)
	s.process(t, nil)
	s.converge(t, all)
	s.awaitAnchor(t)

	s.server.Kill()
	backup := s.server.Save()
	s.server.Restart()
	all["o0"], all["new"] = "restarted", "restarted"
	s.putAll(t, all)
	t.Logf("restarted: followed within %s", s.converge(t, all).Round(time.Millisecond))
	s.awaitAnchor(t)

	s.server.Kill()
	backup()
	s.server.Restart()
	all["o1"] = "restored" // The backup does not have "new", and has the old "o0".
	s.put(t, "o1", "restored")
	all["o0"] = "before"
	t.Logf("restored: followed within %s", s.converge(t, all).Round(time.Millisecond))
	s.keeps(t, all)
	s.accept(t)
	delete(all, "new")
	s.converge(t, all)

	s.server.Kill()
	s.server.Empty()
	s.createBuckets(t, 1)
	all["o2"] = "recreated"
	s.put(t, "o2", "recreated")
	t.Logf("recreated: followed within %s", s.converge(t, all).Round(time.Millisecond))
	s.keeps(t, all)
	s.accept(t)
	s.converge(t, map[string]string{"o2": "recreated"})
}

// awaitAnchor waits until the identity of the bucket that runs is saved, so that a later one is recognized.
func (s *stage) awaitAnchor(t *testing.T) {
	t.Helper()
	anchor := natshub.Anchor{Client: s.remote, Reader: s.remote, Namespace: s.namespace, Bucket: ordersBucket}
	seen, err := bucket.Describe(t.Context(), s.js, ordersBucket, hubID)
	must(t, err)
	eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, ok, err := anchor.Load(ctx)
		now, errNow := bucket.Describe(ctx, s.js, ordersBucket, hubID)
		if err = errors.Join(err, errNow); err == nil && (!ok || now.Identity.Counter < seen.Identity.Counter+2) {
			err = errors.New("the hub has not seen two further canaries")
		}
		return err
	})
}

// keeps waits until the process has looked at all secondaries with the bucket of now, and expects that none has gone: an order that it
// has to follow is made and deleted.
func (s *stage) keeps(t *testing.T, all map[string]string) {
	t.Helper()
	with := maps.Clone(all)
	with["probe"] = "x"
	s.put(t, "probe", "x")
	s.converge(t, with)
	s.delete(t, "probe")
	s.converge(t, all)
}
