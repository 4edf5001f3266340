// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
)

// Paths and headers between the two sides, inside of TLS.
const (
	helloPath     = "/hello"   // a ping; the other side responds with its version
	welcomePath   = "/welcome" // the agent is accepted
	secondPath    = "/second"  // it is not, because another one is connected
	headerVersion = "Clusterfx-Version"
	headerRemote  = "Clusterfx-Remote" // of a request from replica to replica
)

// link opens streams on a connection: it is the side of the client of HTTP/2.
type link struct {
	conn    *http.ClientConn
	streams atomic.Int32
	ended   chan struct{} // closed when the connection has ended
	end     func()
}

type connKey struct{}

// newLinks is for all links, since a Transport is large. It takes the connection from the context.
func newLinks() *http.Transport {
	return &http.Transport{
		Protocols: cleartext(), HTTP2: http2(), MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, _ := ctx.Value(connKey{}).(net.Conn)
			return conn, nil
		},
	}
}

func newLink(ctx context.Context, links *http.Transport, over *tls.Conn) (*link, error) {
	conn := inner(over)
	client, err := links.NewClientConn(context.WithValue(ctx, connKey{}, conn), "http", "tunnel:80")
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("speak HTTP/2 with the other side: %w", err)
	}
	l := &link{conn: client, ended: make(chan struct{})}
	l.end = sync.OnceFunc(func() {
		_ = conn.Close()
		close(l.ended)
	})
	client.SetStateHook(func(c *http.ClientConn) {
		if c.Err() != nil {
			l.end()
		}
	})
	return l, nil
}

func (l *link) close() {
	_ = l.conn.Close()
	l.end()
}

var versionForm = regexp.MustCompile(`^[-+.0-9A-Za-z]{1,64}$`)

func (l *link) isOver() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// tell sends one of the messages above, and returns the version of the other side.
func (l *link) tell(ctx context.Context, path string) (version string, err error) {
	header, err := l.get(ctx, path)
	return versionIn(header), err
}

func versionIn(header http.Header) string {
	if version := header.Get(headerVersion); versionForm.MatchString(version) {
		return version
	}
	return "unknown"
}

func (l *link) get(ctx context.Context, path string) (http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://tunnel"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := l.conn.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("send a message to the other side: %w", err)
	}
	_ = response.Body.Close()
	switch response.StatusCode {
	case http.StatusNoContent:
		return response.Header, nil
	case http.StatusNotFound:
		return nil, errElsewhere
	}
	return nil, errors.New("the other side does not speak the tunnel's protocol")
}

// dial opens a stream. It ends with ctx until the other side has responded, and at the latest after dialTimeout.
func (l *link) dial(ctx context.Context, authority string, header http.Header) (net.Conn, error) {
	if l.streams.Add(1) > maxStreams {
		l.streams.Add(-1)
		return nil, errTooMany
	}
	release := sync.OnceFunc(func() { l.streams.Add(-1) })
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	stop := context.AfterFunc(dialing, func() { end(context.Cause(dialing)) })
	from, to := io.Pipe()
	if header == nil {
		header = http.Header{}
	}
	request := &http.Request{
		Method: http.MethodConnect, Host: authority, URL: &url.URL{Scheme: "http", Host: authority},
		Header: header, Body: from,
	}
	response, err := l.conn.RoundTrip(request.WithContext(life))
	if err == nil && response.StatusCode == http.StatusOK && stop() {
		return &stream{body: response.Body, to: to, end: end, ctx: life, release: release, address: address(authority)}, nil
	}
	stop()
	end(net.ErrClosed)
	_ = to.Close()
	release()
	if err != nil {
		return nil, l.failure(ctx, dialing, err)
	}
	_ = response.Body.Close()
	if dialing.Err() != nil {
		return nil, l.failure(ctx, dialing, dialing.Err())
	}
	return nil, refusal(response.StatusCode)
}

func (l *link) failure(ctx, dialing context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case dialing.Err() != nil:
		return fmt.Errorf("the agent has not responded within %s: %w", dialTimeout, os.ErrDeadlineExceeded)
	case l.conn.Err() != nil:
		return errElsewhere // It has just ended.
	}
	return fmt.Errorf("open a connection through the agent: %w", err)
}

// refusal has a fixed text for each status, and nothing that the other side has written.
func refusal(status int) error {
	switch status {
	case http.StatusForbidden:
		return errAddress
	case http.StatusNotFound:
		return errElsewhere
	case http.StatusServiceUnavailable:
		return errTooMany
	case http.StatusGatewayTimeout:
		return fmt.Errorf("the API server does not respond to the agent: %w", os.ErrDeadlineExceeded)
	case http.StatusBadGateway:
		return fmt.Errorf("the agent has no connection to the API server: %w", syscall.ECONNREFUSED)
	}
	return fmt.Errorf("the agent responds with status %d: %w", status, syscall.ECONNREFUSED)
}

// DownError says why there is no tunnel to a remote, in words of the hub.
type DownError struct {
	why    string
	status int // between replicas
}

var (
	errElsewhere = &DownError{"no agent is connected", http.StatusNotFound}
	errTooMany   = &DownError{"too many connections are open through it", http.StatusServiceUnavailable}
	errAddress   = &DownError{"the agent is for another address than the server of the Cluster; correct --to of the agent, or the server", http.StatusForbidden}
)

func (e *DownError) Error() string { return "the tunnel is down: " + e.why }

// TunnelDown is for package kubeconfig, which puts the text into the status of the Cluster.
func (e *DownError) TunnelDown() string { return e.why }
