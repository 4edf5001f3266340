// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
)

// replicas are two hubs that know each other, and share the keys of agents.
func replicas(t *testing.T) (one, other *stand) {
	t.Helper()
	one, other = newStand(t, server()), newStand(t, nil)
	other.key, other.to, other.api, other.owner = one.key, one.to, one.api, one.owner
	var mu sync.Mutex
	peers := map[*stand]map[string]Peer{}
	for _, s := range []*stand{one, other} {
		s.hub.o.ReplicaKey = newKey(t)
		s.hub.o.Peers = func() map[string]Peer {
			mu.Lock()
			defer mu.Unlock()
			return peers[s]
		}
		s.hub.o.Owner = func(_ context.Context, key string) string {
			one.mu.Lock()
			defer one.mu.Unlock()
			return one.owner[key]
		}
	}
	mu.Lock()
	defer mu.Unlock()
	peers[one] = map[string]Peer{"other": {other.addr, other.hub.o.ReplicaKey.Fingerprint()}}
	peers[other] = map[string]Peer{"one": {one.addr, one.hub.o.ReplicaKey.Fingerprint()}}
	return one, other
}

// Promise: a replica reaches a remote whose agent is connected to another replica, and follows it from one to the other.
func TestHub_relaysBetweenReplicas(t *testing.T) {
	t.Parallel()
	one, other := replicas(t)
	key, end := one.connected("edge")
	c := other.client("edge")
	text, err := other.get(c)
	must(t, err)
	if text != "HTTP/2.0 true" {
		t.Errorf("got %q", text)
	}
	if state := other.hub.State("edge"); !state.Connected || state.Replica != "one" || state.Key != key.Fingerprint() || state.Version != "v1" || state.Since.IsZero() {
		t.Errorf("got state %+v", state)
	}
	watch := open(t, other, c, "/watch")
	end()
	if _, err := io.Copy(io.Discard, watch.Body); err == nil {
		t.Error("a watch has ended without an error")
	}
	one.waitConnected("edge", false)
	_, err = other.get(c)
	wantDown(t, err, "no agent is connected")
	other.waitConnected("edge", false)

	run(t, other.agent(key))
	other.waitConnected("edge", true)
	_, err = one.get(one.client("edge"))
	must(t, err)
	if state := one.hub.State("edge"); state.Replica != "other" {
		t.Errorf("got state %+v", state)
	}
}

// Promise: between replicas, too, stopped readers of one remote stop no other remote.
func TestHub_relaysEachRemoteForItself(t *testing.T) {
	t.Parallel()
	one, other := replicas(t)
	one.connected("slow")
	one.connected("edge")
	for range maxStreams {
		other.stopped("slow")
	}
	_, err := other.get(other.client("slow"))
	wantDown(t, err, "too many connections")
	edge := other.client("edge")
	for range 20 {
		_, err := other.get(edge)
		must(t, err)
	}
}

// Promise: a replica accepts no other than those whose keys are in Leases, and connects to no other.
func TestHub_refusesOtherReplicas(t *testing.T) {
	t.Parallel()
	one, other := replicas(t)
	one.connected("edge")
	stranger := newStand(t, nil)
	stranger.hub.o.ReplicaKey = newKey(t)
	stranger.hub.o.Peers = func() map[string]Peer {
		return map[string]Peer{"one": {one.addr, one.hub.o.ReplicaKey.Fingerprint()}}
	}
	_, err := stranger.hub.Dial(t.Context(), "edge", one.to)
	wantDown(t, err, "no agent")
	other.hub.o.ReplicaKey = newKey(t) // It says one key, and has another.
	_, err = other.hub.connectPeer(t.Context(), Peer{one.addr, one.hub.o.ReplicaKey.Fingerprint()})
	wantError(t, err, "403")
	_, err = one.hub.connectPeer(t.Context(), Peer{other.addr, newKey(t).Fingerprint()})
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		t.Error("a replica with another key than in its Lease is trusted")
	}
}
