// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// server serves /x, /big (which is long), and /watch (a line each 20 ms).
func server() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/x", func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.Proto, " ", r.TLS != nil) })
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 64<<10)
		for range 320 {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/watch", func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			_, _ = fmt.Fprintln(w, "event")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})
	return mux
}

func open(t *testing.T, s *stand, c *http.Client, path string) *http.Response {
	t.Helper()
	response, err := c.Do(testkit.Request(t, http.MethodGet, s.api.URL+path))
	must(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// Promise: the hub reaches an API server that it cannot dial, with TLS end to end.
func TestHub_dialsThroughTheAgent(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	key, _ := s.connected("edge")
	text, err := s.get(s.client("edge"))
	must(t, err)
	if text != "HTTP/2.0 true" {
		t.Errorf("got %q through the tunnel", text)
	}
	state := s.hub.State("edge")
	if state.Version != "v1" || state.Key != key.Fingerprint() || state.Since.IsZero() {
		t.Errorf("got state %+v", state)
	}
	_, err = s.get(s.client("other"))
	wantDown(t, err, "no agent is connected")
}

func wantDown(t testing.TB, err error, part string) {
	t.Helper()
	if _, ok := errors.AsType[*DownError](err); !ok {
		t.Fatalf("got error %v, want a *DownError", err)
	}
	wantError(t, err, part)
}

// Promise: an agent cannot be told where to dial.
func TestAgent_refusesAnotherAddress(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	s.connected("edge")
	for _, other := range []string{s.addr, "169.254.169.254:80", "localhost:" + s.to[len("127.0.0.1:"):]} {
		_, err := s.hub.Dial(t.Context(), "edge", other)
		wantDown(t, err, "another address")
	}
}

func TestAgent_reportsAnAPIServerThatIsAway(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	s.connected("edge")
	s.api.Close()
	_, err := s.hub.Dial(t.Context(), "edge", s.to)
	wantError(t, err, "no connection to the API server")
}

// Promise: an agent that is away is a dial error, at once, and watches end; it connects again by itself.
func TestHub_noticesACut(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	door := s.behindDoor("edge")
	c := s.client("edge")
	watch := open(t, s, c, "/watch")
	must(t, door.Set(fault.Refuse()))
	if _, err := io.Copy(io.Discard, watch.Body); err == nil {
		t.Error("a watch has ended without an error")
	}
	s.waitConnected("edge", false)
	_, err := s.get(c)
	wantDown(t, err, "")
	must(t, door.Set(fault.Pass()))
	s.waitConnected("edge", true)
	must(t, testkit.Err(s.get(c)))
}

// Promise: of 64 connections whose readers have stopped, the tunnel takes as many as its window has room for, and refuses the others
// at once; a probe beside them is served.
func TestHub_stoppedReadersStopNoOther(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	s.connected("edge")
	probe := s.client("edge")
	must(t, testkit.Err(s.get(probe)))
	for i := range 64 {
		if i < maxStreams-1 {
			s.stopped("edge")
			continue
		}
		wantDown(t, testkit.Err(s.hub.Dial(t.Context(), "edge", s.to)), "too many connections")
	}
	for range 20 {
		must(t, testkit.Err(s.get(probe)))
	}
}

// Promise: a dial ends with its context, and leaves nothing behind.
func TestHub_dialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newStand(t, server())
	door := s.behindDoor("edge")
	must(t, door.Set(fault.Hold()))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := s.hub.Dial(ctx, "edge", s.to)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want that of the context", err)
	}
	if took := time.Since(begin); took > dialTimeout/2 {
		t.Errorf("the dial took %s", took)
	}
	_, err = s.hub.Dial(t.Context(), "edge", s.to)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got error %v without a deadline, want that of the dial timeout", err)
	}
	if n := s.hub.sessions["edge"].streams.Load(); n != 0 {
		t.Errorf("%d streams are left", n)
	}
	must(t, door.Set(fault.Pass()))
	conn, err := s.hub.Dial(t.Context(), "edge", s.to)
	must(t, err)
	must(t, conn.Close())
}

// echo is an API server that says what it hears, and ends when it hears no more.
func echo(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

func TestStream(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.to = echo(t)
	s.connected("edge")
	dial := func(t *testing.T) *stream {
		t.Helper()
		conn, err := s.hub.Dial(t.Context(), "edge", s.to)
		must(t, err)
		one, ok := conn.(*stream)
		if !ok {
			t.Fatalf("got a %T", conn)
		}
		t.Cleanup(func() { _ = one.Close() })
		return one
	}
	t.Run("each side ends for itself", func(t *testing.T) {
		one := dial(t)
		must(t, testkit.Err(one.Write([]byte("hello"))))
		must(t, one.CloseWrite())
		text, err := io.ReadAll(one)
		must(t, err)
		if string(text) != "hello" {
			t.Errorf("got %q back", text)
		}
	})
	t.Run("a deadline ends a Read", func(t *testing.T) {
		one := dial(t)
		must(t, one.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		_, err := one.Read(make([]byte, 1))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
	})
	t.Run("a deadline that is lifted ends nothing", func(t *testing.T) {
		one := dial(t)
		must(t, one.SetDeadline(time.Now().Add(time.Hour)))
		must(t, one.SetDeadline(time.Time{}))
		_, err := one.Write([]byte("x"))
		must(t, err)
		_, err = io.ReadFull(one, make([]byte, 1))
		must(t, err)
	})
	t.Run("Close ends a Read", func(t *testing.T) {
		one := dial(t)
		var failed atomic.Pointer[error]
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := one.Read(make([]byte, 1))
			failed.Store(&err)
		}()
		must(t, one.Close())
		testkit.Closed(t, "a Read", done)
		if err := *failed.Load(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got error %v", err)
		}
	})
}
