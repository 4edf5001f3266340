// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestKey(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	text := key.PEM()
	again, err := ParseKey(text)
	must(t, err)
	if again.Fingerprint() != key.Fingerprint() || !IsFingerprint(key.Fingerprint()) {
		t.Errorf("got fingerprints %q and %q", key.Fingerprint(), again.Fingerprint())
	}
	for _, bad := range []string{"", "x", strings.Replace(string(text), "MC4", "MC5", 1)} {
		if _, err := ParseKey([]byte(bad)); !errors.Is(err, errNoKey) {
			t.Errorf("got error %v for a bad key", err)
		}
	}
}

// Promise: only the agent with an accepted key gets in, only the hub with the known key gets an agent, and each says why not.
func TestAgent_CheckSaysWhyItCannotConnect(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	key := newKey(t)
	s.accept(key, "edge")
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(proxy.Close)
	outerTLS := httptest.NewTLSServer(s.hub)
	t.Cleanup(outerTLS.Close)
	wss := strings.Replace(outerTLS.URL, "https", "wss", 1)
	for name, one := range map[string]struct {
		change func(*Agent)
		want   string // empty: it connects
	}{
		"good":                   {func(*Agent) {}, ""},
		"an unknown key":         {func(a *Agent) { other := newKey(t); a.Key = func() (Key, error) { return other, nil } }, "run hub accept NAME sha256:"},
		"another hub":            {func(a *Agent) { a.HubKeys = []string{newKey(t).Fingerprint()} }, "none of --hub-key"},
		"an older protocol":      {func(a *Agent) { a.protocols = []string{"clusterfx-tunnel/0"} }, "upgrade the older one"},
		"also an older protocol": {func(a *Agent) { a.protocols = []string{"clusterfx-tunnel/0", protocol} }, ""},
		"no hub at the address":  {func(a *Agent) { a.Hub = "ws://" + plain.Listener.Addr().String() }, "--tunnel-bind-address"},
		"no address":             {func(a *Agent) { a.Hub = "https://hub" }, "--hub is not an address"},
		"nobody at the address":  {func(a *Agent) { a.Hub = "ws://127.0.0.1:1" }, "connection refused"},
		"an unknown CA":          {func(a *Agent) { a.Hub = wss }, "unknown authority"},
		"a known CA": {func(a *Agent) {
			a.Hub = wss
			a.Roots = outerTLS.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		}, ""}, //nolint:forcetypeassert // a test
		"no API server":           {func(a *Agent) { a.To = "127.0.0.1:1" }, "--to"},
		"a proxy with a password": {func(a *Agent) { a.Hub, a.proxy = "wss://hub.example.com", proxy.URL }, "Proxy Authentication Required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := s.agent(key)
			one.change(a)
			err := a.Check(t.Context())
			if one.want == "" {
				must(t, err)
				return
			}
			wantError(t, err, one.want)
		})
	}
}

// Promise: the agent goes through the HTTP proxy of its environment, with its password.
func TestAgent_goesThroughAProxy(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	outerTLS := httptest.NewTLSServer(s.hub)
	t.Cleanup(outerTLS.Close)
	var pipes sync.WaitGroup
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pipes.Add(1)
		defer pipes.Done()
		if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") == "" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		through(w, r)
	}))
	t.Cleanup(pipes.Wait)
	t.Cleanup(proxy.Close)
	key := newKey(t)
	s.accept(key, "edge")
	a := s.agent(key)
	a.Hub = strings.Replace(outerTLS.URL, "https", "wss", 1)
	a.Roots = outerTLS.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:forcetypeassert // a test
	a.proxy = strings.Replace(proxy.URL, "http://", "http://user:password@", 1)
	must(t, a.Check(t.Context()))
}

func through(w http.ResponseWriter, r *http.Request) {
	there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	here, ahead, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	var pipes sync.WaitGroup
	pipe := func(to net.Conn, from io.Reader) {
		_, _ = io.Copy(to, from)
		_, _ = here.Close(), there.Close()
	}
	pipes.Go(func() { pipe(here, there) })
	pipes.Go(func() { pipe(there, ahead.Reader) })
	pipes.Wait()
}

// Promise: a handshake with TLS 1.2, without a protocol, without a certificate, with a key that the request has not named, or a
// repetition of a good one does not get in.
func TestHub_refusesOtherHandshakes(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	key, second := newKey(t), newKey(t)
	s.accept(key, "edge")
	s.accept(second, "other")
	good := func() *tls.Config {
		return key.config([]string{protocol}, func(string) error { return nil })
	}
	for name, change := range map[string]func(*tls.Config){
		"TLS 1.2":        func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
		"no protocol":    func(c *tls.Config) { c.NextProtos, c.VerifyConnection = nil, nil },
		"no certificate": func(c *tls.Config) { c.Certificates = nil },
		"another key":    func(c *tls.Config) { c.Certificates = []tls.Certificate{second.certificate} },
		"a chain": func(c *tls.Config) {
			c.Certificates[0].Certificate = append(slices.Clone(c.Certificates[0].Certificate), second.certificate.Certificate...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := good()
			change(config)
			over := tls.Client(s.raw(key), config)
			if err := over.HandshakeContext(t.Context()); err != nil {
				return
			}
			if n, err := over.Read(make([]byte, 1)); err == nil {
				t.Errorf("the hub has sent %d bytes", n)
			}
		})
	}
	testkit.Equal(t, s.hub.Agents(), 0, "the number of agents that got in")
	t.Run("a repetition", func(t *testing.T) {
		recorded := &recorder{Conn: s.raw(second)}
		over := tls.Client(recorded, second.config([]string{protocol}, func(string) error { return nil }))
		must(t, over.HandshakeContext(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		served := &served{conn: inner(over), agent: s.agent(second), accepted: func([]string) { cancel() }}
		if err := served.serve(ctx); !served.welcome.Load() {
			t.Fatalf("the good handshake failed: %v", err)
		}
		s.waitConnected("other", false)
		again := s.raw(second)
		_, err := again.Write(recorded.sent)
		must(t, err)
		_ = again.SetReadDeadline(time.Now().Add(soon))
		for buffer := make([]byte, 4096); err == nil; {
			_, err = again.Read(buffer)
		}
		testkit.Equal(t, s.hub.Agents(), 0, "the number of agents that got in by a repetition")
	})
}

// raw is a WebSocket of an agent with this key, before TLS.
func (s *stand) raw(key Key) net.Conn {
	s.t.Helper()
	ws, response, err := websocket.Dial(s.t.Context(), "ws://"+s.addr+Path, &websocket.DialOptions{
		HTTPHeader: http.Header{headerKey: {key.Fingerprint()}},
	})
	if response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	must(s.t, err)
	conn := outer(context.WithoutCancel(s.t.Context()), ws)
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

type recorder struct {
	net.Conn
	sent []byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.sent = append(r.sent, p...)
	return r.Conn.Write(p)
}

// Promise: a key that is no longer accepted disconnects its agent.
func TestHub_disconnectsARevokedKey(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	key, _ := s.connected("edge")
	s.revoke(key)
	s.waitConnected("edge", false)
}

// Promise: while an agent responds, a second one with the same key waits, and takes over when the first has gone.
func TestHub_secondAgentWaits(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	key, end := s.connected("edge")
	since := s.hub.State("edge").Since
	second := s.agent(key)
	must(t, second.Check(t.Context())) // It says that all is well, and does not disturb the first.
	run(t, second)
	eventually(t, func() error {
		if s.count(failed) < 2 {
			return errors.New("the second agent was not refused yet")
		}
		return nil
	})
	if got := s.hub.State("edge").Since; got != since {
		t.Errorf("the first agent was disconnected")
	}
	end()
	eventually(t, func() error {
		if state := s.hub.State("edge"); !state.Connected || state.Since.Equal(since) {
			return errors.New("the second agent has not taken over")
		}
		return nil
	})
}

// Promise: an agent whose connection is dead without a word is replaced at once by its next one.
func TestHub_newAgentReplacesADeadOne(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	door := s.door()
	key := newKey(t)
	s.accept(key, "edge")
	first := s.agent(key)
	first.Hub = "ws://" + door.Addr()
	run(t, first)
	s.waitConnected("edge", true)
	since := s.hub.State("edge").Since
	must(t, door.Set(fault.Blackhole()))
	run(t, s.agent(key))
	begin := time.Now()
	eventually(t, func() error {
		if s.hub.State("edge").Since.Equal(since) {
			return errors.New("the dead agent is still the one")
		}
		return nil
	})
	if took := time.Since(begin); took > 2*dialTimeout {
		t.Errorf("it took %s", took)
	}
}

// Promise: an agent uses a new key from its file, without a restart.
func TestAgent_takesItsNewKey(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./internal/tunnel TestHub_dialsThroughTheAgent")
	s := newStand(t, server())
	before, after := newKey(t), newKey(t)
	s.accept(before, "edge")
	s.accept(after, "edge")
	now, mu := before, sync.Mutex{}
	a := s.agent(before)
	a.Key = func() (Key, error) { mu.Lock(); defer mu.Unlock(); return now, nil }
	run(t, a)
	s.waitConnected("edge", true)
	mu.Lock()
	now = after
	mu.Unlock()
	eventually(t, func() error {
		if s.hub.State("edge").Key != after.Fingerprint() {
			return errors.New("the agent uses the key before")
		}
		return nil
	})
}

// Promise: an agent without a connection for too long ends itself.
func TestAgent_endsItself(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	if err := s.agent(newKey(t)).run(t.Context(), 10*time.Millisecond); !errors.Is(err, ErrNotConnected) {
		t.Errorf("got error %v", err)
	}
}
