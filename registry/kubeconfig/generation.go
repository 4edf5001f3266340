// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a connection. The hub probes its remotes, and these bounds make sure that a connection of a failed probe
// does not linger.
const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	headerTimeout    = 30 * time.Second // a watch sends its headers at once
	maxHeaderBytes   = 64 << 10
	idleTimeout      = 30 * time.Second
	pingAfter        = 10 * time.Second // without a frame from the server; longer than between two probes
	pingTimeout      = 8 * time.Second
	maxIdle          = 8 // connections, for servers without HTTP/2
)

// generation is the connections that were made with one client certificate, or without one. TLS
// shows a certificate once for each connection, so that another certificate needs other
// connections.
type generation struct {
	http *http.Transport
	lost func() // see Transport.Lost
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	// mu protects the fields below. It is held for map operations only.
	mu     sync.Mutex
	open   map[int]func() // ends a dial or a connection
	next   int            // key in open
	closed bool
}

func newGeneration(w wiring, c Credential, lost func()) *generation {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            w.roots,
		ServerName:         w.endpoint.TLSServerName,
		InsecureSkipVerify: w.endpoint.Insecure, // checked against the Policy
	}
	if c.Type() == ClientCertificate {
		config.Certificates = []tls.Certificate{c.secret().pair}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, ControlContext: w.policy.guard}
	g := &generation{lost: lost, dial: dialer.DialContext, open: make(map[int]func())}
	g.http = &http.Transport{
		DialContext:            g.connect,
		Proxy:                  w.proxyFunc(),
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    handshakeTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    maxIdle,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	return g
}

// proxyFunc returns a function that returns the only proxy, or nil: net/http then uses no proxy.
func (w wiring) proxyFunc() func(*http.Request) (*url.URL, error) {
	if w.proxy != nil {
		return http.ProxyURL(w.proxy)
	}
	if !w.policy.ProxyFromEnvironment {
		return nil
	}
	return func(r *http.Request) (*url.URL, error) {
		proxy, err := http.ProxyFromEnvironment(r)
		if err != nil || proxy != nil && proxy.Scheme == "https" {
			return nil, errProxy
		}
		return proxy, nil
	}
}

// connect dials, and remembers the connection until it is closed.
func (g *generation) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	release, ok := g.hold(cancel)
	if !ok {
		return nil, errClosed
	}
	defer release()
	conn, err := g.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	release, ok = g.hold(func() { _ = conn.Close() })
	if !ok {
		_ = conn.Close()
		return nil, errClosed
	}
	return &heldConn{Conn: conn, release: release, lost: g.lost, began: time.Now()}, nil
}

// hold has end called when the generation is closed, unless it is released before. It returns false
// if the generation is closed already.
func (g *generation) hold(end func()) (release func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	key := g.next
	g.next++
	g.open[key] = end
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.open, key)
	}, true
}

// close ends every dial and every connection, in use or not. New ones are refused.
func (g *generation) close() {
	g.mu.Lock()
	open := g.open
	g.open, g.closed = nil, true
	g.mu.Unlock()
	for _, end := range open {
		end()
	}
	g.http.CloseIdleConnections()
}

// heldConn notifies its generation when it is closed, and its Transport when the server has ended it.
type heldConn struct {
	net.Conn
	release func()
	lost    func()
	began   time.Time
	reading atomic.Bool
	read    atomic.Int64 // when it last received bytes, as a duration since began
}

// Read reads the next bytes, which are encrypted.
func (c *heldConn) Read(p []byte) (int, error) {
	c.reading.Store(true)
	n, err := c.Conn.Read(p)
	c.reading.Store(false)
	if n > 0 {
		c.read.Store(int64(time.Since(c.began)))
	}
	return n, err
}

// Close closes the connection. A Transport reads from a connection until it closes the connection itself. So if there is no
// Read in progress, the server has ended the TLS connection, or the TLS handshake or HTTP has failed.
func (c *heldConn) Close() error {
	if !c.reading.Load() {
		c.lost()
	}
	c.release()
	return c.Conn.Close()
}

// LastRead returns when a TCP connection of a Transport last received bytes, and the zero time for any other connection.
// The connection may be the TLS connection above it. The bytes may come from a load balancer. Over HTTP/2 the Transport
// sends a ping when nothing has come for ten seconds, and closes the connection if nothing has come eight seconds later: TCP alone
// sends what a remote has missed in growing intervals, so that the return of a remote would be noticed late.
func LastRead(c net.Conn) time.Time {
	if secured, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secured.NetConn()
	}
	held, ok := c.(*heldConn)
	if !ok {
		return time.Time{}
	}
	return held.began.Add(time.Duration(held.read.Load()))
}
