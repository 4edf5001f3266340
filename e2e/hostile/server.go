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
	listener  net.Listener
	honest    *httputil.ReverseProxy
	upstream  *http.Transport

	requests, lies atomic.Int64

	done    chan struct{}
	stop    func()
	running sync.WaitGroup

	// mu protects conns, the connections that no http.Server closes; nil after Close.
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
	if s.elsewhere, err = startElsewhere(s.authority); err != nil {
		return nil, err
	}
	if s.listener, err = listen(); err != nil {
		s.elsewhere.close()
		return nil, err
	}
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

func listen() (net.Listener, error) {
	var config net.ListenConfig
	//nolint:forbidigo // Listening on loopback takes no time.
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a hostile server: %w", err)
	}
	return l, nil
}

func (s *Server) serve() {
	if s.script.conn != nil {
		s.running.Go(s.acceptRaw)
		return
	}
	server := &http.Server{
		Handler:           s,
		ErrorLog:          silent(),
		ReadHeaderTimeout: time.Minute,
		MaxHeaderBytes:    1 << 20,
	}
	protocols := []string{"h2", "http/1.1"}
	if s.script.http1 {
		protocols = protocols[1:]
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	server.TLSConfig = s.authority.serverTLS(protocols...)
	s.running.Go(func() {
		_ = server.ServeTLS(s.listener, "", "")
	})
	s.running.Go(func() {
		<-s.done
		_ = server.Close()
	})
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
	s.running.Go(func() {
		<-s.done
		_ = s.listener.Close()
	})
	for {
		conn, err := s.listener.Accept()
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
	s.running.Wait()
	s.upstream.CloseIdleConnections()
	s.elsewhere.close()
}

// Kubeconfig returns a kubeconfig that leads to the server, with a bearer token.
func (s *Server) Kubeconfig() []byte {
	const name = "hostile"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{
		Server: "https://" + s.listener.Addr().String(), CertificateAuthorityData: s.authority.caPEM,
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
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
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
