// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// replicas are hubs that know each other, and share their key and the keys of agents.
type replicas struct {
	mu    sync.Mutex
	peers map[string]string
}

// start runs a replica, which shares what the first one has.
func (r *replicas) start(t *testing.T, name string, first *stand) *stand {
	t.Helper()
	s := newStand(t, nil)
	s.hub.o.Replica = name
	s.hub.o.Peers = func() map[string]string {
		r.mu.Lock()
		defer r.mu.Unlock()
		others := map[string]string{}
		for other, address := range r.peers {
			if other != name {
				others[other] = address
			}
		}
		return others
	}
	if first != nil {
		s.key, s.to, s.api, s.hub.o.Owner = first.key, first.to, first.api, first.hub.o.Owner
	}
	r.set(name, s.addr)
	return s
}

func (r *replicas) set(name, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers == nil {
		r.peers = map[string]string{}
	}
	if r.peers[name] = address; address == "" {
		delete(r.peers, name)
	}
}

// Promise: an agent that reaches one replica has a connection with each, also with one that comes later, and keeps those that it has
// when another replica goes.
func TestAgent_connectsWithEachReplica(t *testing.T) {
	t.Parallel()
	var all replicas
	api := newStand(t, server())
	one := all.start(t, "one", api)
	two := all.start(t, "two", api)
	key := newKey(t)
	api.accept(key, "edge")
	run(t, one.agent(key))
	works := func(replicas ...*stand) {
		t.Helper()
		for _, s := range replicas {
			s.waitConnected("edge", true)
			text, err := s.get(s.client("edge"))
			must(t, err)
			testkit.Equal(t, text, "HTTP/2.0 true", "the response")
		}
	}
	works(one, two)
	three := all.start(t, "three", api)
	works(three)
	since := two.hub.State("edge").Since
	all.set("three", "")
	three.end()
	four := all.start(t, "four", api)
	works(one, two, four)
	testkit.Equal(t, two.hub.State("edge").Since, since, "the time of the connection with another replica")
	all.set("two", "")
	two.end()
	two = all.start(t, "two", api) // at another address
	works(two)
}

// Promise: an agent whose replicas have all been replaced while it could not reach them finds the new ones.
func TestAgent_findsNewReplicas(t *testing.T) {
	t.Parallel()
	var all replicas
	api := newStand(t, server())
	one := all.start(t, "one", api)
	key := newKey(t)
	api.accept(key, "edge")
	run(t, one.agent(key))
	one.waitConnected("edge", true)
	all.set("one", "")
	one.end()
	again := newStandAt(t, nil, one.addr, one.key)
	again.hub.o.Replica, again.hub.o.Owner = "other", api.hub.o.Owner
	again.waitConnected("edge", true)
}

// Promise: a replica believes the address of an agent from no one but another replica, and passes on what is to reach a replica, and no
// further.
func TestHub_forwardsToReplicasOnly(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.hub.o.Peers = func() map[string]string { return map[string]string{"two": "192.0.2.2:8444"} }
	for from, want := range map[string]string{"192.0.2.2:1": "203.0.113.7", "192.0.2.3:1": "192.0.2.3"} {
		r := httptest.NewRequest(http.MethodGet, Path, nil)
		r.RemoteAddr = from
		r.Header.Set(headerFrom, "203.0.113.7")
		testkit.Equal(t, s.hub.addressOf(r), want, "the address")
	}
	key := newKey(t)
	s.accept(key, "edge")
	for header, replica := range map[string]string{"": "unknown", "203.0.113.7": "two"} {
		r := httptest.NewRequest(http.MethodGet, Path, nil)
		r.Header.Set(headerKey, key.Fingerprint())
		r.Header.Set(headerReplica, replica)
		r.Header.Set(headerFrom, header)
		w := httptest.NewRecorder()
		s.hub.ServeHTTP(w, r)
		testkit.Equal(t, w.Code, http.StatusNotFound, "the status for replica "+replica)
	}
	if err := s.agent(key).session(t.Context(), "unknown", nil); err == nil || errors.Is(err, errEnded) {
		t.Errorf("got error %v for an unknown replica", err)
	}
}
