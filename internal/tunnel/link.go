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
	limit   int32
	ended   chan struct{} // closed when the connection has ended
	end     func()
}

func newLink(ctx context.Context, over *tls.Conn, limit int32) (*link, error) {
	conn := inner(over)
	t := &http.Transport{
		Protocols: cleartext(), HTTP2: http2(), MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	client, err := t.NewClientConn(ctx, "http", "tunnel:80")
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("speak HTTP/2 with the other side: %w", err)
	}
	l := &link{conn: client, limit: limit, ended: make(chan struct{})}
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

// tell sends one of the messages above, and returns the version of the other side.
func (l *link) tell(ctx context.Context, path string) (version string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://tunnel"+path, nil)
	if err != nil {
		return "", err
	}
	response, err := l.conn.RoundTrip(r)
	if err != nil {
		return "", fmt.Errorf("send a message to the other side: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return "", errors.New("the other side does not speak the tunnel's protocol")
	}
	if version = response.Header.Get(headerVersion); !versionForm.MatchString(version) {
		version = "unknown"
	}
	return version, nil
}

// dial opens a stream. It ends with ctx until the other side has responded, and at the latest after dialTimeout.
func (l *link) dial(ctx context.Context, authority string, header http.Header) (net.Conn, error) {
	if l.streams.Add(1) > l.limit {
		l.streams.Add(-1)
		return nil, down("too many connections are open through it; the hub opens at most %d", l.limit)
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
		return down("the connection of the agent has just ended")
	}
	return fmt.Errorf("open a connection through the agent: %w", err)
}

// refusal has a fixed text for each status, and nothing that the other side has written.
func refusal(status int) error {
	switch status {
	case http.StatusForbidden:
		return down("the agent is for another address than the server of the Cluster; correct --to of the agent, or the server")
	case http.StatusNotFound:
		return errElsewhere
	case http.StatusServiceUnavailable:
		return down("too many connections are open through it")
	case http.StatusGatewayTimeout:
		return fmt.Errorf("the API server does not respond to the agent: %w", os.ErrDeadlineExceeded)
	case http.StatusBadGateway:
		return fmt.Errorf("the agent has no connection to the API server: %w", syscall.ECONNREFUSED)
	}
	return fmt.Errorf("the agent responds with status %d: %w", status, syscall.ECONNREFUSED)
}

var errElsewhere = down("no agent is connected")

// DownError says why there is no tunnel to a remote, in words of the hub.
type DownError struct{ why string }

func down(format string, values ...any) error { return &DownError{fmt.Sprintf(format, values...)} }

func (e *DownError) Error() string { return "the tunnel is down: " + e.why }

// TunnelDown is for package kubeconfig, which puts the text into the status of the Cluster.
func (e *DownError) TunnelDown() string { return e.why }
