// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A Server is an API server that lies according to its script. New makes it; the caller must call Close.
type Server struct {
	script    Script
	authority *authority
	token     string
	elsewhere *elsewhere
	server    *httptest.Server
	honest    *httputil.ReverseProxy
	upstream  *http.Transport

	requests, lies atomic.Int64

	done    chan struct{}
	stop    func()
	running sync.WaitGroup

	// mu protects conns, the connections that the server does not close; nil after Close.
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// New starts a server in front of a kubeconfig's API server. It makes no connection before a client connects.
func New(kubeconfig []byte, script Script) (*Server, error) {
	config, err := configOf(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	s := &Server{script: script, token: rand.Text(), done: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	s.stop = sync.OnceFunc(func() { close(s.done) })
	if err := s.lead(config); err != nil {
		return nil, err
	}
	if s.authority, err = newAuthority(); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	s.elsewhere = startElsewhere(s.authority)
	s.serve()
	return s, nil
}

func configOf(kubeconfig []byte) (*rest.Config, error) {
	c, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*c, nil).ClientConfig()
}

func (s *Server) lead(config *rest.Config) error {
	server, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("read the address of the API server: %w", err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return fmt.Errorf("read the keys of the API server: %w", err)
	}
	s.upstream = &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, DisableCompression: true}
	s.honest = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			r.Out.Header.Del("Authorization")
			if config.BearerToken != "" {
				r.Out.Header.Set("Authorization", "Bearer "+config.BearerToken)
			}
		},
		Transport:     s.upstream,
		FlushInterval: -1,
		ErrorLog:      silent(),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	return nil
}

func silent() *log.Logger { return log.New(io.Discard, "", 0) }

// newServer listens on loopback.
func newServer(handler http.Handler, config *tls.Config) *httptest.Server {
	s := httptest.NewUnstartedServer(handler)
	s.TLS, s.Config.ErrorLog, s.Config.ReadHeaderTimeout = config, silent(), time.Minute
	return s
}

func (s *Server) serve() {
	protocols := []string{"h2", "http/1.1"}
	if s.script.http1 {
		protocols = protocols[1:]
	}
	s.server = newServer(s, s.authority.serverTLS(protocols...))
	if s.script.conn != nil {
		s.running.Go(s.acceptRaw)
		return
	}
	s.server.EnableHTTP2, s.server.Config.MaxHeaderBytes = !s.script.http1, 1<<20
	s.server.StartTLS()
}

// ServeHTTP responds to a request, truthfully or not.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		return
	}
	defer s.running.Done()
	s.requests.Add(1)
	for _, one := range s.script.lies {
		if one.about(r) {
			s.lies.Add(1)
			one.tell(s, w, r)
			return
		}
	}
	s.tellTheTruth(w, r)
}

// begin reports false if Close has waited already.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	s.running.Add(1)
	return true
}

// tellTheTruth forwards a request of the kubeconfig's user: other users of this machine must not have its permissions.
func (s *Server) tellTheTruth(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.honest.ServeHTTP(w, r)
}

func (s *Server) acceptRaw() {
	for {
		conn, err := s.server.Listener.Accept()
		if err != nil {
			return
		}
		if !s.hold(conn) {
			return
		}
		s.requests.Add(1)
		s.lies.Add(1)
		s.running.Go(func() {
			defer s.release(conn)
			s.script.conn(s, conn)
		})
	}
}

// hold returns false if the server has ended.
func (s *Server) hold(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *Server) release(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

// Close ends every lie, and returns when all goroutines have ended. It may be called again.
func (s *Server) Close() {
	s.stop()
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for conn := range conns {
		_ = conn.Close()
	}
	for _, one := range []*httptest.Server{s.server, s.elsewhere.server} {
		one.CloseClientConnections()
		one.Close()
	}
	s.running.Wait()
	s.upstream.CloseIdleConnections()
}

// Kubeconfig returns a kubeconfig that leads to the server, with a bearer token.
func (s *Server) Kubeconfig() []byte {
	const name = "hostile"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{
		Server: "https://" + s.server.Listener.Addr().String(), CertificateAuthorityData: s.authority.pem,
	}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: s.token}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	data, err := clientcmd.Write(*c)
	if err != nil { // only on types that are not registered, which these are
		panic(fmt.Sprintf("encode a kubeconfig: %v", err))
	}
	return data
}

// Stats has the counters of a server.
type Stats struct {
	// Requests, or connections if the script reads no request. Lies are the script's responses.
	Requests, Lies int64
	// Elsewhere are requests at the target of redirects, a line each, with credentials.
	Elsewhere []string
}

// Stats returns the counters of now.
func (s *Server) Stats() Stats {
	return Stats{Requests: s.requests.Load(), Lies: s.lies.Load(), Elsewhere: s.elsewhere.arrived()}
}

var errHungUp = errors.New("the client hung up")

func (s *Server) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return errHungUp
	case <-s.done:
		return errHungUp
	}
}

func (s *Server) forever(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.done:
	}
}
