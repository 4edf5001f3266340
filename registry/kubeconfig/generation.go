// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// These bounds make sure that a connection of a failed probe does not linger.
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

// generation has the connections of one client certificate, or of none: TLS shows a certificate once for each
// connection.
type generation struct {
	http *http.Transport
	lost func() // see Transport.Lost
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	ctx  context.Context //nolint:containedctx // Every dial and connection ends with it.
	end  context.CancelFunc
}

// newGeneration ends with life, or before.
func newGeneration(life context.Context, w wiring, c Credential, lost func()) *generation {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            w.roots,
		ServerName:         w.endpoint.TLSServerName,
		InsecureSkipVerify: w.endpoint.Insecure, // checked against the Policy
	}
	if c.Type() == ClientCertificate {
		config.Certificates = []tls.Certificate{c.secret().pair}
	}
	g := &generation{lost: lost, dial: w.dialFunc()}
	g.ctx, g.end = context.WithCancel(life)
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

func (w wiring) dialFunc() func(ctx context.Context, network, address string) (net.Conn, error) {
	if w.endpoint.Tunnel == "" {
		return (&net.Dialer{Timeout: dialTimeout, ControlContext: w.policy.guard}).DialContext
	}
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		if w.policy.Tunnel == nil {
			return nil, errNoTunnels
		}
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return w.policy.Tunnel(ctx, w.endpoint.Tunnel, address)
	}
}

// proxyFunc may return nil: net/http then uses no proxy.
func (w wiring) proxyFunc() func(*http.Request) (*url.URL, error) {
	if w.endpoint.Tunnel != "" {
		return nil
	}
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

func (g *generation) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	conn, err := g.dial(ctx, network, address)
	switch {
	case err == nil:
		held := &heldConn{Conn: conn, lost: g.lost, began: time.Now()}
		held.release = context.AfterFunc(g.ctx, func() { _ = conn.Close() })
		return held, nil
	case g.ctx.Err() != nil:
		return nil, errClosed
	}
	return nil, err
}

// close ends every dial and connection, in use or not, and refuses new ones.
func (g *generation) close() {
	g.end()
	g.http.CloseIdleConnections()
}

// heldConn ends with its generation, and tells its Transport when the server has ended it.
type heldConn struct {
	net.Conn
	release func() bool // from the generation
	lost    func()
	began   time.Time
	reading atomic.Bool
	read    atomic.Int64 // when it last received bytes, as a duration since began
}

func (c *heldConn) Read(p []byte) (int, error) {
	c.reading.Store(true)
	n, err := c.Conn.Read(p)
	c.reading.Store(false)
	if n > 0 {
		c.read.Store(int64(time.Since(c.began)))
	}
	return n, err
}

// Close: a Transport reads from a connection until it closes it itself. So without a Read in progress, the server has
// ended TLS, or the handshake or HTTP has failed.
func (c *heldConn) Close() error {
	if !c.reading.Load() {
		c.lost()
	}
	c.release()
	return c.Conn.Close()
}

// LastRead returns when a TCP connection of a Transport (or the TLS connection above it) last received bytes, perhaps
// from a load balancer; zero for any other connection. Over HTTP/2 the Transport pings after ten silent seconds and
// closes the connection eight later: TCP alone repeats in growing intervals, and would notice the return of a remote
// late.
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
