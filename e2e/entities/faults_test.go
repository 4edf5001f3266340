// SPDX-License-Identifier: Apache-2.0

package entities_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
)

// A process that ends before any of its writes leaves nothing that the next one does not finish: neither an object of an entity that
// has gone without a marker, nor an identity that the bucket does not continue. To end before a write is to end after the write before it.
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
			s.purge(t, fmt.Sprint("b", n-1))
		}
		p := s.process(t, func(of *settings) { of.DieBefore = n + 1 })
		<-p.done // Canaries are writes, too, so each process ends.
		p = s.process(t, nil)
		s.converge(t, map[string]string{"a": text, fmt.Sprint("b", n): text})
		p.kill()
	}
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
	last := "o2"
	for i, f := range []fault.Fault{
		fault.Refuse(), fault.Blackhole(), fault.Reset(), fault.LoseAnswers(), fault.LoseRequests(), fault.CutAfter(1000),
	} {
		s.purge(t, last) // Only a list shows that.
		delete(all, last)
		must(t, proxy.Set(f))
		s.delete(t, "o1")
		last = fmt.Sprint("new", i)
		all["o1"], all[last] = f.String(), f.String()
		s.putAll(t, all)
		<-time.After(20 * time.Second) // longer than a watch may be silent
		must(t, proxy.Set(fault.Pass()))
		t.Logf("%s: followed within %s of the return", f, s.converge(t, all).Round(time.Millisecond))
	}
}

// One of two ways to NATS falls silent, and stays so: the process goes the other way, whichever it has used.
// Promise: a server that the hub is connected to falls silent for good: the hub uses another one.
func TestNetwork_OneWayIsSilent(t *testing.T) {
	fleettest.Slow(t, "nothing: silence is noticed after three pings, which are ten seconds apart")
	t.Parallel()
	s := newStage(t)
	ways := []*fault.Proxy{fleettest.Proxy(t, s.server.Address()), fleettest.Proxy(t, s.server.Address())}
	s.url = "nats://" + ways[0].Addr() + ",nats://" + ways[1].Addr()
	s.process(t, nil)
	all := map[string]string{}
	for i, silent := range ways {
		must(t, silent.Set(fault.Blackhole()))
		all["o"] = fmt.Sprint("with way ", i, " silent")
		s.putAll(t, all)
		t.Logf("way %d is silent: followed after %s", i, s.converge(t, all).Round(time.Millisecond))
		must(t, silent.Set(fault.Pass()))
	}
}
