// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// defaultDrain is how long requests may continue with a client certificate that was replaced.
const defaultDrain = 10 * time.Second

var (
	errClosed = fmt.Errorf("the connection to the remote is closed; it was stopped or replaced: %w", net.ErrClosed)
	errHost   = errors.New("the request is for another host than the remote's server, which never gets its credentials; " +
		"use a client of your own for it")
	errProxy = errors.New("the proxy in the hub's environment is not an http:// or socks5:// URL; correct HTTPS_PROXY of the hub")
)

// Transport sends requests to one endpoint with one credential, which can be replaced meanwhile. It is an
// http.RoundTripper that speaks HTTP/2 if the server does, returns redirects and status codes unchanged, and sends
// nothing to another host. It is safe for many goroutines. Its errors contain no text of the server: see Discreet. The
// caller must call Close.
type Transport struct {
	// Drain is how long requests and watches may continue with a replaced client certificate, before their connections
	// are closed and watches resume with the new one. Set it before the first Swap. Default 10 s.
	Drain time.Duration
	// Lost is called when the server or the network ends a TCP connection, not when the Transport does. It must return
	// at once. Set it before the first request.
	Lost func()

	origin string // scheme, host and port of the only server
	wiring wiring
	active atomic.Pointer[session] // nil once closed; written under mu

	mu   sync.Mutex      // serializes Swap and Close; held while a generation is made, never while a connection is used
	life context.Context //nolint:containedctx // All generations end with it.
	end  context.CancelFunc
}

type session struct {
	credential    Credential
	authorization string // header, empty for a client certificate
	generation    *generation
}

// NewTransport checks the endpoint against the Policy, also if it is from Parse, and contacts no server. An *Error
// names the value that is not accepted. Each address is checked after name resolution.
func NewTransport(c Connection, p Policy) (*Transport, error) {
	w, err := newWiring(c.Endpoint, p)
	if err != nil {
		return nil, err
	}
	t := &Transport{origin: origin(w.server), wiring: w}
	t.life, t.end = context.WithCancel(context.Background()) //nolint:forbidigo // It ends with Close, and not with its maker.
	first, err := t.newSession(c.Credential, nil)
	if err != nil {
		return nil, err
	}
	t.active.Store(first)
	return t, nil
}

// RoundTrip sends an authenticated request to the endpoint. It replaces a header Authorization, and refuses another
// host. It returns with the server's headers, for which it waits 30 s once the request is sent, or with the end of the
// request's context.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	s := t.active.Load()
	if s == nil {
		return refuseRequest(r, errClosed)
	}
	if r.URL == nil || origin(r.URL) != t.origin {
		return refuseRequest(r, errHost)
	}
	out := r.WithContext(r.Context())
	out.Header = r.Header.Clone()
	if out.Header == nil {
		out.Header = make(http.Header, 1)
	}
	out.Header.Del("Authorization")
	if s.authorization != "" {
		out.Header.Set("Authorization", s.authorization)
	}
	response, err := s.generation.http.RoundTrip(out)
	if err != nil {
		return nil, worded(t.wiring.blame(err))
	}
	response.Request = r // the one without the credential
	return withoutText(r, response, s.credential)
}

// Swap replaces the credential for every later request, and does not block. Two tokens share connections. Otherwise the
// old connections are closed: idle ones at once, the others after Drain. The error is an *Error if there is no
// credential, and matches net.ErrClosed after Close.
func (t *Transport) Swap(c Credential) error {
	retired, err := t.replace(c)
	if retired != nil {
		retired.http.CloseIdleConnections()
		time.AfterFunc(cmp.Or(t.Drain, defaultDrain), retired.close)
	}
	return err
}

// replace returns the generation that is in use no more, or nil.
func (t *Transport) replace(c Credential) (retired *generation, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.active.Load()
	if old == nil {
		return nil, fmt.Errorf("swap the credential: %w", errClosed)
	}
	next, err := t.newSession(c, old)
	if err != nil {
		return nil, err
	}
	t.active.Store(next)
	if next.generation != old.generation {
		retired = old.generation
	}
	return retired, nil
}

// CloseIdleConnections closes the connections that no request uses at the moment.
func (t *Transport) CloseIdleConnections() {
	if s := t.active.Load(); s != nil {
		s.generation.http.CloseIdleConnections()
	}
}

// Close closes every connection; requests and watches on them fail, later ones are refused. It does not wait for their
// callers, and may be called again.
func (t *Transport) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active.Store(nil)
	t.end()
}

// newSession keeps the old connections where it can.
func (t *Transport) newSession(c Credential, old *session) (*session, error) {
	next := &session{credential: c}
	switch c.Type() {
	case Token:
		next.authorization = "Bearer " + c.secret().token
	case ClientCertificate:
	default:
		return nil, place{}.invalid("there is neither a token nor a client certificate; add one to the Secret")
	}
	if old != nil && (c.Equal(old.credential) || c.Type() == Token && old.credential.Type() == Token) {
		next.generation = old.generation
		return next, nil
	}
	next.generation = newGeneration(t.life, t.wiring, c, t.lost)
	return next, nil
}

func (t *Transport) lost() {
	if t.Lost != nil {
		t.Lost()
	}
}

func newWiring(e Endpoint, p Policy) (wiring, error) {
	from := source{
		server: place{field: "server"}, serverName: place{field: "tlsServerName"}, proxy: place{field: "proxyURL"},
		ca: place{field: "caData"}, insecure: place{field: "insecure"},
	}
	w, err := e.resolve(from, p)
	if err != nil {
		return w, err
	}
	return w, w.checkAddresses(from)
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return strings.ToLower(u.Scheme) + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func refuseRequest(r *http.Request, err error) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, err
}

// RESTConfig returns the configuration of clients that reach the endpoint through rt, usually a Transport with more
// around it, which has the credentials and the TLS settings. client-go does not limit the rate (QPS is -1), and only rt
// times anything out.
func RESTConfig(e Endpoint, rt http.RoundTripper) *rest.Config {
	return &rest.Config{Host: e.Server, Transport: rt, QPS: -1}
}
