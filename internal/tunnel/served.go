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
	"time"

	"github.com/go-logr/logr"
)

// served is the agent's side of a connection, on which the hub opens streams: the server of HTTP/2.
type served struct {
	conn  *cutConn
	agent *Agent

	accepted func(replicas []string)

	taken, welcome, second atomic.Bool // whether Accept has returned conn, the hub has accepted the agent, or has another one
}

var (
	errEnded  = errors.New("the other side has ended the connection")
	errSilent = errors.New("the hub has not accepted the agent in time")
)

// serve lasts as long as the connection, and at most until ctx ends, and waits for the streams. The error says why it has ended.
func (s *served) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(handshakeTimeout, func() {
		if !s.welcome.Load() {
			cancel(errSilent)
		}
	})
	defer late.Stop()
	var streams sync.WaitGroup
	server := &http.Server{
		Protocols: cleartext(), HTTP2: http2(), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(s.agent.Log), slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			streams.Add(1)
			defer streams.Done()
			s.handle(w, r)
		}),
	}
	defer context.AfterFunc(ctx, func() { _ = s.conn.Close() })()
	_ = server.Serve(s)
	_ = server.Close()
	streams.Wait()
	switch err := s.conn.failure(); {
	case s.second.Load():
		return errSecond
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil || errors.Is(err, io.EOF):
		return errEnded
	default:
		return err
	}
}

func (s *served) handle(w http.ResponseWriter, r *http.Request) {
	status := http.StatusNoContent
	switch {
	case r.Method == http.MethodConnect:
		s.agent.pipe(w, r)
		return
	case r.URL.Path == welcomePath:
		s.accepted(strings.Split(r.Header.Get(headerReplicas), " "))
		s.welcome.Store(true)
	case r.URL.Path == secondPath:
		s.second.Store(true)
	default:
		status = http.StatusNotFound
	}
	w.WriteHeader(status)
}

// Accept is of a net.Listener with this connection alone.
func (s *served) Accept() (net.Conn, error) {
	if s.taken.CompareAndSwap(false, true) {
		return s.conn, nil
	}
	<-s.conn.closed
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
