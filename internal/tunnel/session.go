// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
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

// Messages of the hub to an agent, inside of TLS.
const (
	welcomePath    = "/welcome" // the agent is accepted, also a ping
	secondPath     = "/second"  // it is not, because another one is connected
	headerReplicas = "Clusterfx-Replicas"
)

// session is the hub's side of the connection with an agent, the client of HTTP/2.
type session struct {
	remote  string
	state   State
	conn    *http.ClientConn
	over    *cutConn
	streams atomic.Int32
}

type connKey struct{}

// newClients is for all sessions, since a Transport is large. It takes the connection from the context.
func newClients() *http.Transport {
	return &http.Transport{
		Protocols: cleartext(), HTTP2: http2(), MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, _ := ctx.Value(connKey{}).(net.Conn)
			return conn, nil
		},
	}
}

func newSession(ctx context.Context, clients *http.Transport, over *tls.Conn, remote string) (*session, error) {
	conn := inner(over)
	client, err := clients.NewClientConn(context.WithValue(ctx, connKey{}, conn), "http", "tunnel:80")
	if err != nil {
		return nil, fmt.Errorf("speak HTTP/2 with the agent: %w", err)
	}
	client.SetStateHook(func(c *http.ClientConn) {
		if c.Err() != nil {
			_ = conn.Close()
		}
	})
	return &session{remote: remote, conn: client, over: conn}, nil
}

func (s *session) close() {
	_, _ = s.conn.Close(), s.over.Close()
}

func (s *session) isOver() bool {
	select {
	case <-s.over.closed:
		return true
	default:
		return false
	}
}

var versionForm = regexp.MustCompile(`^[-+.0-9A-Za-z]{1,64}$`)

func versionIn(header http.Header) string {
	if version := header.Get(headerVersion); versionForm.MatchString(version) {
		return version
	}
	return "unknown"
}

// welcome tells the agent that it is connected, and the names of the replicas, this one first.
func (s *session) welcome(ctx context.Context, replicas string) error {
	return s.tell(ctx, welcomePath, http.Header{headerReplicas: {replicas}})
}

func (s *session) tell(ctx context.Context, path string, header http.Header) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://tunnel"+path, nil)
	if err != nil {
		return err
	}
	if header != nil {
		r.Header = header
	}
	response, err := s.conn.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("send a message to the agent: %w", err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the agent responds with status %d to a message", response.StatusCode)
	}
	return nil
}

// dial opens a stream. It ends with ctx until the agent has responded, and at the latest after dialTimeout.
func (s *session) dial(ctx context.Context, authority string) (net.Conn, error) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return nil, errTooMany
	}
	release := sync.OnceFunc(func() { s.streams.Add(-1) })
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	stop := context.AfterFunc(dialing, func() { end(context.Cause(dialing)) })
	from, to := io.Pipe()
	request := &http.Request{
		Method: http.MethodConnect, Host: authority, URL: &url.URL{Scheme: "http", Host: authority}, Header: http.Header{}, Body: from,
	}
	response, err := s.conn.RoundTrip(request.WithContext(life))
	if err == nil && response.StatusCode == http.StatusOK && stop() {
		return &stream{body: response.Body, to: to, end: end, ctx: life, release: release, address: address(authority)}, nil
	}
	stop()
	end(net.ErrClosed)
	_ = to.Close()
	release()
	if err == nil {
		_ = response.Body.Close()
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case dialing.Err() != nil:
		return nil, fmt.Errorf("the agent has not responded within %s: %w", dialTimeout, os.ErrDeadlineExceeded)
	case s.conn.Err() != nil:
		return nil, errAway // It has just ended.
	case err != nil:
		return nil, fmt.Errorf("open a connection through the agent: %w", err)
	}
	return nil, refusal(response.StatusCode)
}

// refusal has a fixed text for each status, and nothing that the agent has written.
func refusal(status int) error {
	switch status {
	case http.StatusForbidden:
		return errAddress
	case http.StatusGatewayTimeout:
		return fmt.Errorf("the API server does not respond to the agent: %w", os.ErrDeadlineExceeded)
	}
	return fmt.Errorf("the agent has no connection to the API server (%d): %w", status, syscall.ECONNREFUSED)
}

// DownError says why there is no tunnel to a remote, in words of the hub.
type DownError struct{ why string }

var (
	errAway    = &DownError{"no agent is connected"}
	errTooMany = &DownError{"too many connections are open through it"}
	errAddress = &DownError{"the agent is for another address than the server of the Cluster; correct --to of the agent, or the server"}
)

func (e *DownError) Error() string { return "the tunnel is down: " + e.why }

// TunnelDown is for package kubeconfig, which puts the text into the status of the Cluster.
func (e *DownError) TunnelDown() string { return e.why }
