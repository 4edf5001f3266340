// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(asAgents) != "" {
		os.Exit(agentsMain()) //nolint:forbidigo // This process has agents and no test.
	}
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

var must = testkit.Must

// stand is a hub with a listener, and an API server behind agents.
type stand struct {
	t     testing.TB
	hub   *Hub
	key   Key
	addr  string
	api   *httptest.Server
	to    string
	mu    sync.Mutex
	owner map[string]string // remote of a key
	end   func()
}

func newStand(t testing.TB, api http.Handler) *stand {
	t.Helper()
	return newStandAt(t, api, "127.0.0.1:0", newKey(t))
}

func newStandAt(t testing.TB, api http.Handler, address string, key Key) *stand {
	t.Helper()
	s := &stand{t: t, owner: map[string]string{}, key: key}
	s.hub = NewHub(t.Context(), HubOptions{
		Key: func() (Key, error) { return s.key, nil },
		Owner: func(_ context.Context, key string) string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.owner[key]
		},
		Log: testLog(t),
	})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	must(t, err)
	s.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.hub.Serve(ctx, l) })
	s.end = func() {
		cancel()
		serving.Wait()
		s.hub.Close()
	}
	t.Cleanup(s.end)
	if api != nil {
		s.api = httptest.NewUnstartedServer(api)
		s.api.EnableHTTP2 = true
		s.api.StartTLS()
		s.to = s.api.Listener.Addr().String()
		t.Cleanup(s.api.Close)
	}
	return s
}

func testLog(t testing.TB) logr.Logger {
	t.Helper()
	if os.Getenv("TUNNEL_LOG") == "" {
		return logr.Discard()
	}
	return testkit.Log(t)
}

func newKey(t testing.TB) Key {
	t.Helper()
	key, err := NewKey()
	must(t, err)
	return key
}

func (s *stand) accept(key Key, remote string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.owner)
	next[key.Fingerprint()] = remote
	s.owner = next
}

func (s *stand) revoke(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owner, key.Fingerprint())
}

func (s *stand) agent(key Key) *Agent {
	return &Agent{
		Hub: "ws://" + s.addr, HubKeys: []string{s.key.Fingerprint()}, Key: func() (Key, error) { return key, nil },
		To: s.to, Version: "v1", Log: testLog(s.t),
	}
}

// run runs an agent until the test ends or end is called.
func run(t testing.TB, a *Agent) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) })
	end = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(end)
	return end
}

// connected runs an agent of a new key, and waits until it is connected.
func (s *stand) connected(remote string) (key Key, end func()) {
	s.t.Helper()
	key = newKey(s.t)
	s.accept(key, remote)
	end = run(s.t, s.agent(key))
	s.waitConnected(remote, true)
	return key, end
}

func (s *stand) waitConnected(remote string, want bool) {
	s.t.Helper()
	eventually(s.t, func() error {
		if s.hub.State(remote).Connected != want {
			return errors.New("the agent's state is another one")
		}
		return nil
	})
}

func eventually(t testing.TB, f func() error) {
	t.Helper()
	testkit.Eventually(t, f)
}

// stopped begins a long response and reads none of it: with HTTP/1, nobody reads what comes through the tunnel then.
func (s *stand) stopped(remote string) {
	s.t.Helper()
	c := s.client(remote)
	transport, _ := c.Transport.(*http.Transport)
	transport.ForceAttemptHTTP2, transport.ReadBufferSize = false, 1<<10
	response, err := c.Do(testkit.Request(s.t, http.MethodGet, s.api.URL+"/big"))
	must(s.t, err)
	s.t.Cleanup(func() { _ = response.Body.Close() })
}

// client sends requests to the API server through the tunnel.
func (s *stand) client(remote string) *http.Client {
	t := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: s.api.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}, //nolint:forcetypeassert,gosec // a test
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return s.hub.Dial(ctx, remote, address)
		},
	}
	s.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func (s *stand) get(c *http.Client) (string, error) {
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.api.URL+"/x", nil)
	must(s.t, err)
	response, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// door is a proxy with faults between the agents and the hub.
func (s *stand) door() *fault.Proxy {
	s.t.Helper()
	proxy, err := fault.New("http://" + s.addr)
	must(s.t, err)
	s.t.Cleanup(proxy.Close)
	return proxy
}

func wantError(t testing.TB, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Fatalf("got error %v, want one with %q", err, part)
	}
}

const soon = 30 * time.Second

func (s *stand) count(result string) int {
	return int(testutil.ToFloat64(s.hub.attempts.WithLabelValues(result)))
}
