// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// An agent connects to any replica. A replica that needs a remote whose agent is with another one asks the others, each over one
// connection (a question), and then has one connection for that remote with the other replica (a relay), with the windows of an
// agent's, so that remotes do not disturb each other. All of them are TLS with the keys of both replicas.

// Peer is another replica of the hub: where its listener is, and the fingerprint of its key.
type Peer struct{ Address, Key string }

const replicaPath = "/replica"

// hasPath and the name of a remote ask for an agent. The response has its State.
const hasPath = "/has/"

const (
	headerAgentKey = "Clusterfx-Agent-Key"
	headerSince    = "Clusterfx-Since"
)

type relay struct {
	*link
	state State
}

// relayed dials through the replica with the agent of a remote.
func (h *Hub) relayed(ctx context.Context, remote, address string) (net.Conn, error) {
	for range 2 { // The agent may have moved since the first relay was made.
		r, err := h.relayFor(ctx, remote)
		if err != nil {
			return nil, err
		}
		conn, err := r.dial(ctx, address, http.Header{headerRemote: {remote}})
		if !errors.Is(err, errElsewhere) {
			return conn, err
		}
		h.dropRelay(remote, r)
	}
	return nil, errElsewhere
}

func (h *Hub) relayFor(ctx context.Context, remote string) (*relay, error) {
	h.mu.Lock()
	known := h.relays[remote]
	h.mu.Unlock()
	if known != nil {
		if !known.isOver() {
			return known, nil
		}
		h.dropRelay(remote, known)
	}
	for name, peer := range h.peers() {
		state, err := h.ask(ctx, peer, remote)
		if err != nil {
			continue
		}
		l, err := h.connectPeer(ctx, peer)
		if err != nil {
			continue
		}
		state.Replica = name
		return h.keepRelay(remote, &relay{l, state})
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, errElsewhere
}

func (h *Hub) peers() map[string]Peer {
	if h.o.Peers == nil {
		return nil
	}
	return h.o.Peers()
}

// keepRelay keeps the first of several that were made at the same time, and closes another one.
func (h *Hub) keepRelay(remote string, r *relay) (*relay, error) {
	kept, err := h.placeRelay(remote, r)
	if kept != r {
		r.close()
	}
	return kept, err
}

func (h *Hub) placeRelay(remote string, r *relay) (*relay, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, net.ErrClosed
	}
	if first := h.relays[remote]; first != nil && !first.isOver() {
		return first, nil
	}
	h.relays[remote] = r
	h.work.Go(func() {
		h.changed(remote)
		<-r.ended
		h.dropRelay(remote, r)
	})
	return r, nil
}

func (h *Hub) dropRelay(remote string, r *relay) {
	r.close()
	h.mu.Lock()
	is := h.relays[remote] == r
	if is {
		delete(h.relays, remote)
		h.gone[remote] = time.Now()
	}
	h.mu.Unlock()
	if is {
		h.changed(remote)
	}
}

// ask asks a replica for the agent of a remote. It is errElsewhere if that has none.
func (h *Hub) ask(ctx context.Context, p Peer, remote string) (State, error) {
	h.mu.Lock()
	l := h.questions[p]
	h.mu.Unlock()
	if l == nil || l.isOver() {
		own, err := h.connectPeer(ctx, p)
		if err != nil {
			return State{}, err
		}
		if l = h.keepQuestions(p, own); l != own {
			own.close()
		}
		if l == nil {
			return State{}, net.ErrClosed
		}
	}
	header, err := l.get(ctx, hasPath+remote)
	if err != nil {
		return State{}, err
	}
	since, _ := time.Parse(time.RFC3339, header.Get(headerSince))
	return State{Connected: true, Version: versionIn(header), Key: header.Get(headerAgentKey), Since: since}, nil
}

// keepQuestions keeps the first of several links that were made at the same time, and none after the end of the hub. It also forgets
// replicas that have gone.
func (h *Hub) keepQuestions(p Peer, l *link) *link {
	live := slices.Collect(maps.Values(h.peers()))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if first := h.questions[p]; first != nil && !first.isOver() {
		return first
	}
	h.questions[p] = l
	maps.DeleteFunc(h.questions, func(p Peer, l *link) bool { return l.isOver() && !slices.Contains(live, p) })
	return l
}

func (h *Hub) connectPeer(ctx context.Context, p Peer) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	ws, response, err := websocket.Dial(ctx, "ws://"+p.Address+replicaPath, &websocket.DialOptions{
		HTTPHeader: http.Header{headerKey: {h.o.ReplicaKey.Fingerprint()}}, CompressionMode: websocket.CompressionDisabled,
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext}},
	})
	if err != nil {
		if response != nil && response.Body != nil {
			_ = response.Body.Close()
		}
		return nil, fmt.Errorf("connect to another replica: %w", err)
	}
	over := tls.Client(outer(h.life, ws), h.o.ReplicaKey.config([]string{protocolReplica}, func(key, _ string) error {
		if key != p.Key {
			return errors.New("the key is not that in the Lease of the replica")
		}
		return nil
	}))
	if err := over.HandshakeContext(ctx); err != nil {
		_ = over.NetConn().Close()
		return nil, fmt.Errorf("agree with another replica: %w", err)
	}
	return newLink(ctx, h.links, over)
}

// serveReplica serves the connection of another replica until it ends.
func (h *Hub) serveReplica(w http.ResponseWriter, r *http.Request) {
	if !h.begins() {
		http.Error(w, "the hub is ending", http.StatusServiceUnavailable)
		return
	}
	defer h.work.Done()
	named := ""
	for _, p := range h.peers() {
		if p.Key == r.Header.Get(headerKey) {
			named = p.Key
		}
	}
	end, ok := h.limits.begin(source{addressOf(r), named})
	if !ok {
		h.counts.add(limited)
		http.Error(w, "too many attempts", http.StatusTooManyRequests)
		return
	}
	s, err := h.acceptReplica(w, r, named)
	if end(err == nil); err != nil {
		h.counts.add(failed)
		return
	}
	_, _ = s.serve(h.life)
}

func (h *Hub) acceptReplica(w http.ResponseWriter, r *http.Request, named string) (*served, error) {
	if named == "" {
		http.Error(w, "unknown key", http.StatusForbidden)
		return nil, errUnknownKey
	}
	ws, err := websocket.Accept(&slim{w}, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, fmt.Errorf("accept a WebSocket: %w", err)
	}
	ctx, cancel := context.WithTimeout(h.life, handshakeTimeout)
	defer cancel()
	over := tls.Server(outer(h.life, ws), h.o.ReplicaKey.config([]string{protocolReplica}, func(key, _ string) error {
		if key != named {
			return errUnknownKey
		}
		return nil
	}))
	if err := over.HandshakeContext(ctx); err != nil {
		_ = over.NetConn().Close()
		return nil, fmt.Errorf("agree with another replica: %w", err)
	}
	s := newServed(inner(over), h.o.Version, h.o.Log, h.pipe)
	s.has = h.has
	return s, nil
}

// has describes the agent of a remote in the header, if it is connected here.
func (h *Hub) has(remote string, header http.Header) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[remote]
	if s == nil || s.isOver() {
		return false
	}
	header.Set(headerVersion, s.state.Version)
	header.Set(headerAgentKey, s.state.Key)
	header.Set(headerSince, s.state.Since.UTC().Format(time.RFC3339))
	return true
}

// pipe connects a stream of another replica with one of an agent that is connected here.
func (h *Hub) pipe(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	s := h.sessions[r.Header.Get(headerRemote)]
	h.mu.Unlock()
	if s == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	conn, err := s.dial(r.Context(), r.Host, nil)
	if err != nil {
		w.WriteHeader(statusOf(err))
		return
	}
	join(w, r, conn)
}

// statusOf is the reverse of refusal.
func statusOf(err error) int {
	var away *DownError
	switch {
	case errors.As(err, &away):
		return away.status
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusGatewayTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return http.StatusBadGateway
	}
	return http.StatusNotFound // The agent has gone.
}
