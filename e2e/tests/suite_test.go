// SPDX-License-Identifier: Apache-2.0

// Package tests shows that the means of the tests are what they say: faults, hostile servers, the API servers that are lent.
package tests

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(asBorrower); how != "" {
		borrow(how)
	}
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

// patience is the timeout for events that take milliseconds; moment is the time in which a test checks that an event
// does not happen.
const (
	patience = 2 * time.Minute
	moment   = 200 * time.Millisecond
)

// echo is a server that sends received data back, and records it.
type echo struct {
	listener net.Listener
	mu       sync.Mutex
	got      []byte
	conns    []net.Conn
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	e := &echo{listener: listener}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns = append(e.conns, conn)
			e.mu.Unlock()
			serving.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		e.mu.Lock()
		for _, conn := range e.conns {
			_ = conn.Close()
		}
		e.mu.Unlock()
		serving.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		e.mu.Lock()
		e.got = append(e.got, buffer[:n]...)
		e.mu.Unlock()
		if _, writing := conn.Write(buffer[:n]); err != nil || writing != nil {
			return
		}
	}
}

func (e *echo) addr() string { return e.listener.Addr().String() }

func (e *echo) received() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.got)
}

func set(t *testing.T, p *fault.Proxy, f fault.Fault) {
	t.Helper()
	if err := p.Set(f); err != nil {
		t.Fatalf("Set(%s): %v", f, err)
	}
}

func dial(t *testing.T, p *fault.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), patience)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// connected returns a connection to a server through a proxy.
func connected(t *testing.T) (*echo, *fault.Proxy, *net.TCPConn) {
	t.Helper()
	server := startEcho(t)
	p := fleettest.Proxy(t, server.addr())
	return server, p, dial(t, p)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatalf("send %q: %v", text, err)
	}
}

// expect fails the test unless the next bytes that arrive are the text.
func expect(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	buffer := make([]byte, len(text))
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(conn, buffer); err != nil || !bytes.Equal(buffer, []byte(text)) {
		t.Fatalf("got %q, %v; want %q", buffer, err, text)
	}
}

// exchange sends a text, and fails the test unless the server sends it back.
func exchange(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	send(t, conn, text)
	expect(t, conn, text)
}

// expectSilence fails the test if data arrives, or the connection ends.
func expectSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(moment))
	n, err := conn.Read(make([]byte, 100))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %d bytes, %v; want silence", n, err)
	}
}

// expectReset fails the test unless the connection is reset.
func expectReset(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	n, err := conn.Read(make([]byte, 100))
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %d bytes, %v; want a reset", n, err)
	}
}

func expectNewIsReset(t *testing.T, p *fault.Proxy) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), patience)
	if err == nil {
		defer func() { _ = conn.Close() }()
		expectReset(t, conn)
	} else if !errors.Is(err, syscall.ECONNRESET) { // The reset may arrive before the dial returns.
		t.Fatalf("dial: got %v, want a reset", err)
	}
}

// chat sends numbered bytes through the proxy, and checks that the received bytes have no holes.
func chat(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, moment)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(moment))
	_, _ = conn.Write(numbered())
	got := make([]byte, len(numbered()))
	n, _ := io.ReadFull(conn, got)
	expectNoHoles(t, got[:n])
}

// numbered returns data in which a hole changes the bytes after it.
func numbered() []byte {
	data := make([]byte, 1000)
	for i := range data {
		data[i] = byte(i)
	}
	return data
}

// expectNoHoles checks that the received bytes are a prefix of the numbered bytes, apart from the bits that Corrupt
// changes.
func expectNoHoles(t *testing.T, got []byte) {
	t.Helper()
	want := numbered()
	for i, b := range got {
		if i >= len(want) || b|1 != want[i]|1 {
			t.Errorf("got byte %d at %d, which is not the byte that was sent", b, i)
			return
		}
	}
}

// eventually polls until a condition is true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if condition() {
			return
		}
	}
	t.Fatalf("%s: not true within %s", what, patience)
}
