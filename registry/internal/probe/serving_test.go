// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// apiServer is an API server that serves what a probe requests, and counts it.
type apiServer struct {
	*httptest.Server
	mu     sync.Mutex // protects the fields below
	asked  map[string]int
	told   chan struct{} // closed when a request has been counted
	status int           // of /readyz
	known  int           // the status of the identity
	hang   bool          // nothing is answered
	before func(string)  // is called with the path before a response; may be nil
	opened func(string)  // is called instead for the first request on a connection; may be nil
	seen   map[string]bool
}

func newAPIServer(tb testing.TB) *apiServer {
	tb.Helper()
	s := &apiServer{asked: map[string]int{}, seen: map[string]bool{}, told: make(chan struct{}), status: http.StatusOK, known: http.StatusOK}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.EnableHTTP2, s.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	s.StartTLS()
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path]++
	close(s.told)
	s.told = make(chan struct{})
	status, identified, hang, before := s.status, s.known, s.hang, s.before
	if !s.seen[r.RemoteAddr] && s.opened != nil {
		before = s.opened
	}
	s.seen[r.RemoteAddr] = true
	s.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return
	}
	if before != nil {
		before(r.URL.Path)
	}
	switch r.URL.Path {
	case "/readyz":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "ok")
	case "/version":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"gitVersion":"v1.36.0"}`)
	case "/watch":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case identityPath:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(identified)
		_, _ = fmt.Fprint(w, `{"metadata":{"uid":"b7a1"}}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"metadata":{"uid":"b7a1"}}`)
	}
}

func (s *apiServer) change(f func(*apiServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *apiServer) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

func (s *apiServer) waitFor(tb testing.TB, path string, n int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	for {
		s.mu.Lock()
		asked, told := s.asked[path], s.told
		s.mu.Unlock()
		if asked >= n {
			return
		}
		select {
		case <-told:
		case <-ctx.Done():
			tb.Fatalf("%s was requested %d times, want %d", path, asked, n)
		}
	}
}

// connect returns a Connection to a server, which is not started.
func (s *apiServer) connect(tb testing.TB, p Pace) *Connection {
	tb.Helper()
	return s.connectBeside(tb, p, Beside{})
}

func (s *apiServer) connectBeside(tb testing.TB, p Pace, b Beside) *Connection {
	tb.Helper()
	parsed := s.parse(tb, "first")
	transport, err := kubeconfig.NewTransport(parsed, loopback())
	must(tb, err)
	tb.Cleanup(transport.Close)
	return New(tb.Context(), Options{
		Contacts: startqueue.New(8, time.Minute, func() bool { return false }), Metrics: telemetry.NewMetrics(prometheus.NewRegistry(), false),
		Starved: func(time.Time) bool { return false },
		Redact:  func(text string) string { return text },
	}, Target{Cluster: "a", Transport: transport, Endpoint: parsed.Endpoint, Credential: "first", Pace: p, Beside: b})
}

func (s *apiServer) parse(tb testing.TB, token string) kubeconfig.Connection {
	tb.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	parsed, err := kubeconfig.Parse(map[string][]byte{"kubeconfig": fmt.Appendf(nil, `{
		"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],
		"users":[{"name":"c","user":{"token":%q}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`,
		s.URL, base64.StdEncoding.EncodeToString(ca), token)}, kubeconfig.Options{}, loopback())
	must(tb, err)
	return parsed
}

func loopback() kubeconfig.Policy {
	return kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}
