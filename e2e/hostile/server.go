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

// A Server is an API server that lies according to its script. New makes it, and its owner ends it with Close.
type Server struct {
	script    Script
	authority *authority
	token     string
	elsewhere *elsewhere
	listener  net.Listener
	honest    *httputil.ReverseProxy
	upstream  *http.Transport

	requests, lies atomic.Int64

	// done is closed when the server is to end, and stop does that.
	done chan struct{}
	stop func()
	// running are the goroutines and handlers that Close waits for.
	running sync.WaitGroup

	// mu protects conns, the connections that no http.Server closes. It is nil after Close.
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// New starts a server in front of the API server that the kubeconfig leads to. It makes no connection before a client
// connects.
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

// configOf returns how to reach the cluster of a kubeconfig that has its keys in it.
func configOf(kubeconfig []byte) (*rest.Config, error) {
	c, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*c, nil).ClientConfig()
}

// lead makes the proxy to the real API server.
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

// silent discards the log of HTTP servers about clients that hang up.
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

// serve starts the listeners of the script.
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

// begin has Close wait for a request, unless it has waited already.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	s.running.Add(1)
	return true
}

// tellTheTruth forwards a request to the real API server, if the client is the user of the kubeconfig: other users of
// this machine must not use the permissions of the server.
func (s *Server) tellTheTruth(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.honest.ServeHTTP(w, r)
}

// acceptRaw hands each connection to the script.
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

// hold has a connection closed when the server ends. It returns false if that has happened.
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

// Close ends the server, with every lie in progress, and returns when all of its goroutines have ended. Calling it
// again does nothing.
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
	// Requests is the number of requests, or of connections if the script never reads a request. Lies is the number of
	// responses of the script.
	Requests, Lies int64
	// Elsewhere has the requests that arrived at the target host of redirects, one line for each request, with its
	// credentials.
	Elsewhere []string
}

// Stats returns the counters of now.
func (s *Server) Stats() Stats {
	return Stats{Requests: s.requests.Load(), Lies: s.lies.Load(), Elsewhere: s.elsewhere.arrived()}
}

// errHungUp ends a lie whose client is gone, or whose server is closed.
var errHungUp = errors.New("the client hung up")

// pause waits, unless the client is gone or the server is closed.
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

// forever waits until the client is gone or the server is closed.
func (s *Server) forever(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.done:
	}
}
