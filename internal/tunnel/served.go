// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// served is a connection on which the other side opens streams: the side of the server of HTTP/2.
type served struct {
	conn    *cutConn
	version string
	log     logr.Logger
	pipe    http.HandlerFunc                             // for a request CONNECT
	has     func(remote string, header http.Header) bool // between replicas

	taken    atomic.Bool
	accepted chan struct{} // closed when the other side has accepted this one
	accept   func()        // closes accepted
	second   atomic.Bool
	over     func()
	ended    chan struct{} // closed when the connection has ended
}

func newServed(conn *cutConn, version string, log logr.Logger, pipe http.HandlerFunc) *served {
	s := &served{conn: conn, version: version, log: log, pipe: pipe, ended: make(chan struct{})}
	s.accepted = make(chan struct{})
	s.accept = sync.OnceFunc(func() { close(s.accepted) })
	s.over = sync.OnceFunc(func() { close(s.ended) })
	return s
}

var errEnded = errors.New("the other side has ended the connection")

// serve lasts as long as the connection, and at most until ctx ends, and waits for the streams. err is why it has ended.
func (s *served) serve(ctx context.Context) (accepted bool, err error) {
	var streams sync.WaitGroup
	server := &http.Server{
		Protocols: cleartext(), HTTP2: http2(), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(s.log), slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			streams.Add(1)
			defer streams.Done()
			s.handle(w, r)
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				s.over()
			}
		},
	}
	defer context.AfterFunc(ctx, func() { _ = s.conn.Close() })()
	_ = server.Serve(s)
	_ = server.Close()
	streams.Wait()
	select {
	case <-s.accepted:
		accepted = true
	default:
	}
	switch err := s.conn.failure(); {
	case s.second.Load():
		return false, errSecond
	case ctx.Err() != nil:
		return accepted, context.Cause(ctx)
	case err == nil || errors.Is(err, io.EOF):
		return accepted, errEnded
	default:
		return accepted, err
	}
}

func (s *served) handle(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		s.pipe(w, r)
		return
	case r.URL.Path == welcomePath:
		s.accept()
	case r.URL.Path == secondPath:
		s.second.Store(true)
	case s.has != nil && strings.HasPrefix(r.URL.Path, hasPath):
		if !s.has(strings.TrimPrefix(r.URL.Path, hasPath), w.Header()) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	case r.URL.Path != helloPath:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set(headerVersion, s.version)
	w.WriteHeader(http.StatusNoContent)
}

// Accept is of a net.Listener with this connection alone.
func (s *served) Accept() (net.Conn, error) {
	if conn := s.conn; s.taken.CompareAndSwap(false, true) {
		return conn, nil
	}
	<-s.ended
	return nil, net.ErrClosed
}

// Close is of a net.Listener.
func (s *served) Close() error { return nil }

// Addr is of a net.Listener.
func (s *served) Addr() net.Addr { return address("tunnel") }

// pipe connects a stream with the agent's one address. The name is resolved anew.
func (a *Agent) pipe(w http.ResponseWriter, r *http.Request) {
	if r.Host != a.To {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	to, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(r.Context(), "tcp", a.To)
	if err != nil {
		a.Log.Info("Failed to connect to the API server", "address", a.To, "error", err.Error())
		status := http.StatusBadGateway
		if errors.Is(err, os.ErrDeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		w.WriteHeader(status)
		return
	}
	join(w, r, to)
}

// join copies both ways until one side has ended, and closes to.
func join(w http.ResponseWriter, r *http.Request, to net.Conn) {
	var copying sync.WaitGroup
	defer copying.Wait()
	defer func() { _ = to.Close() }()
	out := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	if out.Flush() != nil {
		return
	}
	defer context.AfterFunc(r.Context(), func() { _ = to.Close() })()
	copying.Go(func() {
		if _, err := io.Copy(to, r.Body); err != nil {
			_ = to.Close()
			return
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	_, _ = io.CopyBuffer(flushing{w, out}, struct{ io.Reader }{to}, make([]byte, copyBuffer))
	_ = r.Body.Close() // ends the other copy
}

const copyBuffer = 16 << 10

// flushing sends what is written at once.
type flushing struct {
	io.Writer
	out *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.out.Flush()
	}
	return n, err
}
