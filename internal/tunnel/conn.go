// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// The bounds of a tunnel. All streams of one together never fill the window of the connection, so that streams whose readers have
// stopped do not stop another one. A remote needs few: HTTP/2 has a hundred requests on one. But its lists come through one, no faster
// than a window in each round trip: 4.8 MB/s over 50 ms.
const (
	maxStreams   = 16
	streamWindow = 240 << 10
	connWindow   = maxStreams * streamWindow // net/http allows less than 4 MiB

	handshakeTimeout = 10 * time.Second // from TLS to the first response
	dialTimeout      = 5 * time.Second
	sendPingAfter    = 10 * time.Second // without a frame
	pingTimeout      = 8 * time.Second
	writeTimeout     = 8 * time.Second // without a byte that could be written
	headerTimeout    = 10 * time.Second
	maxHeaderBytes   = 8 << 10
)

// limits of HTTP/2, of both sides. One stream is for pings between the sides.
func http2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams + 1, MaxReceiveBufferPerConnection: connWindow, MaxReceiveBufferPerStream: streamWindow,
		SendPingTimeout: sendPingAfter, PingTimeout: pingTimeout, WriteByteTimeout: writeTimeout,
	}
}

func cleartext() *http.Protocols { // HTTP/2 without a TLS of its own: that is below.
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true)
	return p
}

// outer is a WebSocket as a connection of bytes. It ends with ctx.
func outer(ctx context.Context, ws *websocket.Conn) net.Conn {
	return newCutConn(websocket.NetConn(ctx, ws, websocket.MessageBinary), ws.CloseNow)
}

// inner hides that it is TLS, since net/http would negotiate by itself, and ends without the last words of TLS, which could block.
func inner(over *tls.Conn) *cutConn { return newCutConn(over, over.NetConn().Close) }

type cutConn struct {
	net.Conn
	cut    func() error
	closed chan struct{}
	failed atomic.Pointer[error] // the first error of Read
}

func newCutConn(conn net.Conn, cut func() error) *cutConn {
	c := &cutConn{Conn: conn, closed: make(chan struct{})}
	c.cut = sync.OnceValue(func() error {
		defer close(c.closed)
		return cut()
	})
	return c
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (c *cutConn) Close() error { return c.cut() }

func (c *cutConn) failure() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// stream is a connection through the tunnel: one request CONNECT. A deadline that passes ends it.
type stream struct {
	body    io.ReadCloser  // from the other side
	to      *io.PipeWriter // to the other side
	end     context.CancelCauseFunc
	ctx     context.Context //nolint:containedctx // It lives as long as the stream.
	release func()
	address address

	mu          sync.Mutex // for the timers only
	read, write *time.Timer
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	return n, s.explain(err)
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	return n, s.explain(err)
}

func (s *stream) explain(err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(s.ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.ErrClosedPipe) {
		return io.ErrUnexpectedEOF // The other side has ended the stream.
	}
	return err
}

// CloseWrite tells the other side that nothing follows.
func (s *stream) CloseWrite() error { return s.to.Close() }

func (s *stream) Close() error {
	s.abort(net.ErrClosed)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, timer := range []*time.Timer{s.read, s.write} {
		if timer != nil {
			timer.Stop()
		}
	}
	return nil
}

func (s *stream) abort(why error) {
	s.end(why)
	_ = s.to.CloseWithError(why)
	_ = s.body.Close()
	s.release()
}

func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}
func (s *stream) SetReadDeadline(t time.Time) error  { return s.setTimer(&s.read, t) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.setTimer(&s.write, t) }

func (s *stream) setTimer(timer **time.Timer, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cause := context.Cause(s.ctx); cause != nil {
		return cause
	}
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	if !t.IsZero() {
		*timer = time.AfterFunc(max(time.Until(t), 0), func() { s.abort(os.ErrDeadlineExceeded) })
	}
	return nil
}

func (s *stream) LocalAddr() net.Addr  { return s.address }
func (s *stream) RemoteAddr() net.Addr { return s.address }

type address string

func (address) Network() string  { return "tunnel" }
func (a address) String() string { return string(a) }
