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
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

// HubOptions are the hub's side. Key and Owner are required.
type HubOptions struct {
	// Key returns the hub's key, by which agents know the hub. It may fail for a while.
	Key func() (Key, error)
	// Owner returns the remote whose agent has the key with this fingerprint, or "". It must return soon; a remote is
	// disconnected within a few seconds after Owner returns another one.
	Owner func(ctx context.Context, fingerprint string) (remote string)
	// Explain returns why no agent can connect for a remote, such as a key that is not accepted yet, or "". Default: none.
	Explain func(ctx context.Context, remote string) string
	// Replica is the name of this replica, and Peers returns the addresses of the listeners of the others by their names. It must
	// not block. Default: there are none.
	Replica string
	Peers   func() map[string]string
	// Changed is called when the agent of a remote has connected or gone. It must return at once. Default: no call.
	Changed func(remote string)
	Log     logr.Logger // Default: discards.
}

// Hub accepts the connections of agents and opens connections through them. It is safe for many goroutines.
type Hub struct {
	o        HubOptions
	limits   limits
	attempts *prometheus.CounterVec
	clients  *http.Transport
	life     context.Context //nolint:containedctx // It ends with Close.
	end      context.CancelFunc
	work     sync.WaitGroup

	mu       sync.Mutex // for operations on the maps below, never over the network
	sessions map[string]*session
	gone     map[string]time.Time
}

// State says when and how the agent of a remote is connected.
type State struct {
	Connected   bool
	Version     string    // Version of the agent.
	Key         string    // Key is the fingerprint of the agent's key.
	Since, Seen time.Time // Since is the time of the connection, Seen of its end.
}

// NewHub returns a hub without connections. The end of ctx does not end it: the caller must call Close.
func NewHub(ctx context.Context, o HubOptions) *Hub {
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	if o.Peers == nil {
		o.Peers = func() map[string]string { return nil }
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	h := &Hub{o: o, attempts: newAttempts(), clients: newClients(), sessions: map[string]*session{}, gone: map[string]time.Time{}}
	h.life, h.end = context.WithCancel(context.WithoutCancel(ctx))
	return h
}

// Close ends all connections and waits for their goroutines.
func (h *Hub) Close() {
	h.mu.Lock()
	h.end()
	h.mu.Unlock()
	h.work.Wait()
}

// begins reports whether the hub is open. Then the caller must call work.Done.
func (h *Hub) begins() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	isOpen := h.life.Err() == nil
	if isOpen {
		h.work.Add(1)
	}
	return isOpen
}

// State returns the state of a remote's agent.
func (h *Hub) State(remote string) State {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[remote]; s != nil {
		return s.state
	}
	return State{Seen: h.gone[remote]}
}

// Dial opens a connection to address through the agent of a remote. Its errors are *DownError if there is no agent.
func (h *Hub) Dial(ctx context.Context, remote, address string) (net.Conn, error) {
	h.mu.Lock()
	s := h.sessions[remote]
	h.mu.Unlock()
	if s != nil {
		return s.dial(ctx, address)
	}
	if h.o.Explain != nil {
		if why := h.o.Explain(ctx, remote); why != "" {
			return nil, &DownError{why}
		}
	}
	return nil, errAway
}

// Path is where agents connect.
const Path = "/tunnel"

// Headers of an agent's request, before TLS. They grant nothing.
const (
	headerKey     = "Clusterfx-Key" // the fingerprint, so that the hub need not begin TLS with a key that it does not know
	headerVersion = "Clusterfx-Version"
	headerReplica = "Clusterfx-Replica" // which replica the agent wants to reach
)

// ServeHTTP accepts the connection of an agent.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.begins() {
		http.Error(w, "the hub is ending", http.StatusServiceUnavailable)
		return
	}
	defer h.work.Done()
	from := source{h.addressOf(r), r.Header.Get(headerKey)}
	if !IsFingerprint(from.key) || h.o.Owner(h.life, from.key) == "" {
		h.count(unknown)
		http.Error(w, "unknown key", http.StatusForbidden)
		return
	}
	if !h.limits.allow(from) {
		h.count(limited)
		http.Error(w, "too many attempts", http.StatusTooManyRequests)
		return
	}
	if to := r.Header.Get(headerReplica); to != "" && to != h.o.Replica {
		h.forward(w, r, from, to)
		return
	}
	ctx, end := h.limits.begin(h.life)
	defer end()
	s, err := h.accept(ctx, w, r, from.key)
	if err != nil {
		h.count(failed)
		h.o.Log.V(1).Info("An agent could not connect", "address", from.address, "key", from.key, "error", err.Error())
		return
	}
	h.count(accepted)
	h.o.Log.Info("An agent has connected", "cluster", s.remote, "key", s.state.Key, "agentVersion", s.state.Version)
}

var errSecond = errors.New("another agent of the Cluster is connected and responds")

func (h *Hub) accept(ctx context.Context, w http.ResponseWriter, r *http.Request, named string) (*session, error) {
	own, err := h.o.Key()
	if err != nil {
		h.o.Log.Error(err, "The hub has no key for tunnels, so no agent can connect")
		http.Error(w, "the hub has no key yet", http.StatusServiceUnavailable)
		return nil, err
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, fmt.Errorf("accept a WebSocket: %w", err)
	}
	conn := outer(h.life, ws)
	s, err := h.handshake(ctx, own, conn, named)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	s.state = State{Connected: true, Version: versionIn(r.Header), Key: named, Since: time.Now()}
	if err = h.add(ctx, s); err == nil {
		err = s.welcome(ctx, h.replicas())
	}
	if errors.Is(err, errSecond) {
		_ = s.tell(ctx, secondPath, nil)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// handshake fails unless the agent has the key that it has named.
func (h *Hub) handshake(ctx context.Context, own Key, conn net.Conn, named string) (*session, error) {
	remote := ""
	over := tls.Server(conn, own.config([]string{protocol}, func(key string) error {
		if remote = h.o.Owner(ctx, key); remote == "" || key != named {
			return errors.New("the agent has another key than it says")
		}
		return nil
	}))
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("agree with the agent: %w", err)
	}
	return newSession(ctx, h.clients, over, remote)
}

// add makes a session that of its remote, unless the session before it responds.
func (h *Hub) add(ctx context.Context, s *session) error {
	for {
		h.mu.Lock()
		before := h.sessions[s.remote]
		if before == nil || before.isOver() {
			break
		}
		h.mu.Unlock()
		ping, cancel := context.WithTimeout(ctx, dialTimeout)
		err := before.welcome(ping, h.replicas())
		cancel()
		if err == nil {
			return errSecond
		}
		before.close()
	}
	defer h.mu.Unlock()
	if h.life.Err() != nil {
		return net.ErrClosed
	}
	h.sessions[s.remote] = s
	h.work.Go(func() { h.watch(s) })
	return nil
}

// recheck is how often a hub asks whether the key of a connected agent is still that of its remote, and tells it which replicas
// there are if that has changed.
const recheck = 2 * time.Second

// watch ends with the session, which it ends if its key is no longer accepted.
func (h *Hub) watch(s *session) {
	h.o.Changed(s.remote)
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for told := h.replicas(); ; {
		select {
		case <-h.life.Done():
			s.close()
			return
		case <-s.over.closed:
			h.forget(s)
			h.o.Log.Info("An agent is no longer connected", "cluster", s.remote, "key", s.state.Key)
			return
		case <-tick.C:
			if h.o.Owner(h.life, s.state.Key) != s.remote {
				s.close()
			}
			if now := h.replicas(); now != told && s.welcome(h.life, now) == nil {
				told = now
			}
		}
	}
}

// replicas has their names, this one first.
func (h *Hub) replicas() string {
	return strings.Join(append([]string{h.o.Replica}, slices.Sorted(maps.Keys(h.o.Peers()))...), " ")
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
		h.o.Changed(s.remote)
	}
}

// Serve serves agents on a listener until ctx ends.
func (h *Hub) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, h)
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

// Results of attempts to connect.
const (
	accepted = "accepted"
	failed   = "failed"
	limited  = "limited"
	unknown  = "unknown_key"
)

func newAttempts() *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterfx_tunnel_attempts_total",
		Help: "Attempts of agents to connect, by result: accepted, failed, limited (too many with a key from an address), or unknown_key.",
	}, []string{"result"})
	for _, result := range []string{accepted, failed, limited, unknown} {
		c.WithLabelValues(result)
	}
	return c
}

func (h *Hub) count(result string) { h.attempts.WithLabelValues(result).Inc() }

// RegisterMetrics registers the metrics of the hub.
func (h *Hub) RegisterMetrics(to prometheus.Registerer) error {
	return errors.Join(to.Register(h.attempts), to.Register(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "clusterfx_tunnel_agents", Help: "Agents that are connected to this replica."},
		func() float64 { return float64(h.Agents()) })))
}

// Agents returns how many agents are connected here.
func (h *Hub) Agents() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sessions)
}
