// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-logr/logr"
)

// HubOptions are the hub's side. Key and Owner are required.
type HubOptions struct {
	// Key returns the hub's key, by which agents know the hub. It may fail for a while.
	Key func(ctx context.Context) (Key, error)
	// Owner returns the remote whose agent has the key with this fingerprint, or "". It must return soon; a remote is
	// disconnected within a few seconds after Owner returns another one.
	Owner func(ctx context.Context, fingerprint string) (remote string)
	// Explain returns why no agent can connect for a remote, such as a key that is not accepted yet, or "". Default: none.
	Explain func(ctx context.Context, remote string) string
	// Peers returns the other replicas by their names, each with its key, and ReplicaKey is that of this one. Peers must not block.
	// Default: there are none.
	Peers      func() map[string]Peer
	ReplicaKey Key
	// Changed is called when the agent of a remote has connected or gone. It must return at once. Default: no call.
	Changed func(remote string)
	Version string      // Version of the program, for the agents.
	Log     logr.Logger // Default: discards.
}

// Hub accepts the connections of agents and opens connections through them. It is safe for many goroutines.
type Hub struct {
	o      HubOptions
	limits *limits
	counts counts
	links  *http.Transport
	life   context.Context //nolint:containedctx // It ends with Close.
	end    context.CancelFunc
	work   sync.WaitGroup // handshakes

	mu        sync.Mutex // for operations on the maps below, never over the network
	sessions  map[string]*session
	relays    map[string]*relay
	questions map[Peer]*link
	gone      map[string]time.Time
	closed    bool
}

// session is the connection of one agent.
type session struct {
	*link
	remote string
	state  State
}

// State says when and how the agent of a remote is connected.
type State struct {
	Connected   bool
	Version     string    // Version of the agent.
	Key         string    // Key is the fingerprint of the agent's key.
	Since, Seen time.Time // Since is the time of the connection, Seen of its end.
	Replica     string    // Replica is the other replica to which the agent is connected; empty for this one.
}

// NewHub returns a hub without connections. The end of ctx does not end it: the caller must call Close.
func NewHub(ctx context.Context, o HubOptions) *Hub {
	h := &Hub{
		o: o, counts: newCounts(), links: newLinks(), limits: newLimits(), sessions: map[string]*session{}, relays: map[string]*relay{}, questions: map[Peer]*link{},
		gone: map[string]time.Time{},
	}
	h.life, h.end = context.WithCancel(context.WithoutCancel(ctx))
	if h.o.Log.GetSink() == nil {
		h.o.Log = logr.Discard()
	}
	return h
}

// Close ends all connections and waits for handshakes.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	var all []*link
	for _, s := range h.sessions {
		all = append(all, s.link)
	}
	for _, r := range h.relays {
		all = append(all, r.link)
	}
	all = slices.AppendSeq(all, maps.Values(h.questions))
	h.mu.Unlock()
	h.end()
	for _, l := range all {
		l.close()
	}
	h.work.Wait()
}

// begins reports whether the hub is open. Then the caller must call work.Done.
func (h *Hub) begins() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.work.Add(1)
	}
	return !h.closed
}

// State returns the state of a remote's agent.
func (h *Hub) State(remote string) State {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[remote]; s != nil {
		return s.state
	}
	if r := h.relays[remote]; r != nil {
		return r.state
	}
	return State{Seen: h.gone[remote]}
}

// Dial opens a connection to address through the agent of a remote. Its errors are *DownError if there is no agent.
func (h *Hub) Dial(ctx context.Context, remote, address string) (net.Conn, error) {
	h.mu.Lock()
	s := h.sessions[remote]
	h.mu.Unlock()
	if s != nil {
		return s.dial(ctx, address, nil)
	}
	conn, err := h.relayed(ctx, remote, address)
	if errors.Is(err, errElsewhere) && h.o.Explain != nil {
		if why := h.o.Explain(ctx, remote); why != "" {
			return nil, &DownError{why, http.StatusNotFound}
		}
	}
	return conn, err
}

// Path is where agents connect.
const Path = "/tunnel"

// headerKey has the fingerprint of the agent's key, so that the hub need not begin TLS with a key that it does not know.
const headerKey = "Clusterfx-Key"

// ServeHTTP accepts the connection of an agent.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.begins() {
		http.Error(w, "the hub is ending", http.StatusServiceUnavailable)
		return
	}
	defer h.work.Done()
	ctx, cancel := context.WithTimeout(h.life, handshakeTimeout)
	defer cancel()
	from, key := addressOf(r), r.Header.Get(headerKey)
	if !IsFingerprint(key) || h.o.Owner(ctx, key) == "" {
		key = ""
	}
	end, ok := h.limits.begin(source{from, key})
	if !ok {
		h.counts.add(limited)
		http.Error(w, "too many attempts", http.StatusTooManyRequests)
		return
	}
	s, err := h.accept(ctx, w, r, key)
	end(err == nil)
	switch {
	case err == nil:
		h.counts.add(accepted)
		h.o.Log.Info("An agent has connected", "cluster", s.remote, "key", key, "agentVersion", s.state.Version)
	case errors.Is(err, errUnknownKey):
		h.counts.add(unknown)
	default:
		h.counts.add(failed)
		h.o.Log.V(1).Info("An agent could not connect", "address", from, "key", key, "error", err.Error())
	}
}

func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

var (
	errUnknownKey = errors.New("the key of the agent belongs to no Cluster")
	errSecond     = errors.New("another agent of the Cluster is connected and responds")
)

func (h *Hub) accept(ctx context.Context, w http.ResponseWriter, r *http.Request, hint string) (*session, error) {
	if hint == "" {
		http.Error(w, "unknown key", http.StatusForbidden)
		return nil, errUnknownKey
	}
	done, err := h.limits.turn(ctx)
	if err != nil {
		http.Error(w, "too many attempts", http.StatusTooManyRequests)
		return nil, err
	}
	defer done()
	own, err := h.o.Key(ctx)
	if err != nil {
		h.o.Log.Error(err, "The hub has no key for tunnels, so no agent can connect")
		http.Error(w, "the hub has no key yet", http.StatusServiceUnavailable)
		return nil, err
	}
	ws, err := websocket.Accept(&slim{w}, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, fmt.Errorf("accept a WebSocket: %w", err)
	}
	conn := outer(h.life, ws)
	s, err := h.handshake(ctx, own, conn, hint)
	if err != nil {
		_ = conn.Close()
	}
	return s, err
}

// handshake fails unless the agent has the key that it has named.
func (h *Hub) handshake(ctx context.Context, own Key, conn net.Conn, named string) (*session, error) {
	s := &session{}
	over := tls.Server(conn, own.config([]string{protocolAgent}, func(key, _ string) error {
		s.state.Key = key
		if s.remote = h.o.Owner(ctx, key); s.remote == "" || key != named {
			return errUnknownKey
		}
		return nil
	}))
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("agree with the agent: %w", err)
	}
	var err error
	if s.link, err = newLink(ctx, h.links, over); err != nil {
		return nil, err
	}
	if s.state.Version, err = s.tell(ctx, helloPath); err != nil {
		s.close()
		return nil, err
	}
	err = h.add(ctx, s)
	if errors.Is(err, errSecond) {
		_, _ = s.tell(ctx, secondPath)
	}
	if err == nil {
		_, err = s.tell(ctx, welcomePath)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// add makes a session that of its remote, unless the session before it responds.
func (h *Hub) add(ctx context.Context, s *session) error {
	s.state.Connected, s.state.Since = true, time.Now()
	for {
		h.mu.Lock()
		before := h.sessions[s.remote]
		if before == nil || before.isOver() {
			break
		}
		h.mu.Unlock()
		ping, cancel := context.WithTimeout(ctx, dialTimeout)
		_, err := before.tell(ping, helloPath)
		cancel()
		if err == nil {
			return errSecond
		}
		before.close()
		h.forget(before)
	}
	defer h.mu.Unlock()
	if h.closed {
		return net.ErrClosed
	}
	h.sessions[s.remote] = s
	h.work.Go(func() { h.watch(s) })
	return nil
}

// recheck is how often a hub asks whether the key of a connected agent is still that of its remote.
const recheck = 5 * time.Second

// watch ends with the session, which it ends if its key is no longer accepted.
func (h *Hub) watch(s *session) {
	h.mu.Lock()
	before := h.relays[s.remote]
	h.mu.Unlock()
	if before != nil {
		h.dropRelay(s.remote, before)
	}
	h.changed(s.remote)
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		select {
		case <-h.life.Done():
			s.close()
			return
		case <-s.ended:
			h.forget(s)
			h.o.Log.Info("An agent is no longer connected", "cluster", s.remote, "key", s.state.Key)
			return
		case <-tick.C:
			if h.o.Owner(h.life, s.state.Key) != s.remote {
				s.close()
			}
		}
	}
}

func (h *Hub) forget(s *session) {
	h.mu.Lock()
	is := h.sessions[s.remote] == s
	if is {
		delete(h.sessions, s.remote)
		h.gone[s.remote] = time.Now()
	}
	h.mu.Unlock()
	if is {
		h.changed(s.remote)
	}
}

func (h *Hub) changed(remote string) {
	if h.o.Changed != nil {
		h.o.Changed(remote)
	}
}

// Serve serves agents on a listener until ctx ends.
func (h *Hub) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, h)
	mux.HandleFunc("GET "+replicaPath, h.serveReplica)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, IdleTimeout: headerTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(h.o.Log), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve agents: %w", err)
	}
	return nil
}

// Remotes returns the remotes whose agents are connected here, sorted.
func (h *Hub) Remotes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for name := range h.sessions {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
