// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestPass(t *testing.T) {
	t.Parallel()
	_, p, conn := connected(t)
	exchange(t, conn, "hello")
	must(t, conn.CloseWrite())
	if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
		t.Errorf("after CloseWrite: read %q, %v; want the end of the stream", rest, err)
	}
	eventually(t, "the connection is forgotten", func() bool { return p.Stats().Open == 0 })
	if got, want := p.Stats(), (fault.Stats{Accepted: 1}); got != want {
		t.Errorf("got stats %+v, want %+v", got, want)
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	_, p, conn := connected(t)
	exchange(t, conn, "before")
	for range 3 {
		set(t, p, fault.Refuse())
		if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial: got %v, want connection refused", err)
		}
		set(t, p, fault.Pass())
		exchange(t, dial(t, p), "after")
	}
	expectReset(t, conn)
}

func TestReset(t *testing.T) {
	t.Parallel()
	_, p, old := connected(t)
	exchange(t, old, "before")
	set(t, p, fault.Reset())
	expectReset(t, old)
	expectNewIsReset(t, p)
	set(t, p, fault.Pass())
	exchange(t, dial(t, p), "after")
}

func TestBlackhole(t *testing.T) {
	t.Parallel()
	server, p, conn := connected(t)
	exchange(t, conn, "before")
	set(t, p, fault.Blackhole())
	send(t, conn, "during")
	expectSilence(t, conn)
	testkit.Equal(t, server.received(), "before", "the server received")
	_, err := net.DialTimeout("tcp", p.Addr(), moment)
	if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("dial: got %v, want a timeout", err)
	}
	// A client that is connecting when the fault ends succeeds, because the kernel retries.
	connected := make(chan net.Conn, 1)
	go func() {
		conn, err := net.DialTimeout("tcp", p.Addr(), patience)
		testkit.NoError(t, err, "dial")
		connected <- conn
	}()
	set(t, p, fault.Pass())
	expect(t, conn, "during")
	exchange(t, conn, "after")
	if conn := <-connected; conn != nil {
		exchange(t, conn, "late")
		_ = conn.Close()
	}
	exchange(t, dial(t, p), "new")
}

func TestNeverRead(t *testing.T) {
	t.Parallel()
	server, p, old := connected(t)
	exchange(t, old, "before")
	set(t, p, fault.NeverRead())
	send(t, old, "old")
	fresh := dial(t, p)
	send(t, fresh, "new")
	expectSilence(t, fresh)
	expectSilence(t, old)
	// The buffers of a connection that is never read fill up, and then writes block.
	_ = fresh.SetWriteDeadline(time.Now().Add(moment))
	n, err := io.Copy(fresh, &zeros{left: 1 << 30})
	testkit.ErrorIs(t, err, os.ErrDeadlineExceeded, "wrote", n, "bytes")
	testkit.Equal(t, server.received(), "before", "the server received")
	set(t, p, fault.Pass())
	expect(t, old, "old")
	expect(t, fresh, "new")
}

// zeros is a reader of a given number of bytes.
type zeros struct{ left int }

func (z *zeros) Read(b []byte) (int, error) {
	n := min(len(b), z.left)
	z.left -= n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestLoseRequests(t *testing.T) {
	t.Parallel()
	server, p, conn := connected(t)
	exchange(t, conn, "before")
	set(t, p, fault.LoseRequests())
	send(t, conn, "lost")
	expectSilence(t, conn)
	testkit.Equal(t, server.received(), "before", "the server received")
	testkit.Equal(t, p.Stats().Lost, 4, "lost bytes")
	set(t, p, fault.Pass())
	expectReset(t, conn)
	exchange(t, dial(t, p), "after")
}

func TestLoseAnswers(t *testing.T) {
	t.Parallel()
	server := startEcho(t)
	p := fleettest.Proxy(t, server.addr())
	conn, untouched := dial(t, p), dial(t, p)
	exchange(t, conn, "before.")
	set(t, p, fault.LoseAnswers())
	send(t, conn, "done without a response")
	expectSilence(t, conn)
	eventually(t, "the request arrives", func() bool { return strings.HasSuffix(server.received(), "without a response") })
	set(t, p, fault.Pass())
	expectReset(t, conn)
	exchange(t, untouched, "a stream without a hole continues")
}

func TestHold(t *testing.T) {
	t.Parallel()
	server, p, conn := connected(t)
	set(t, p, fault.Hold())
	send(t, conn, "one ")
	eventually(t, "the request arrives", func() bool { return server.received() == "one " })
	send(t, conn, "two")
	expectSilence(t, conn)
	set(t, p, fault.Pass())
	expect(t, conn, "one two")
}

func TestDelay(t *testing.T) {
	t.Parallel()
	_, p, conn := connected(t)
	const delay, jitter = 100 * time.Millisecond, 50 * time.Millisecond
	set(t, p, fault.Delay(delay, jitter))
	for range 3 {
		began := time.Now()
		send(t, conn, "there ")
		send(t, conn, "and back")
		expect(t, conn, "there and back")
		if took := time.Since(began); took < 2*(delay-jitter) {
			t.Errorf("the round trip took %s, want at least %s", took, 2*(delay-jitter))
		}
	}
	// Delayed data arrives when the delay ends.
	set(t, p, fault.Delay(time.Hour, 0))
	send(t, conn, "soon")
	expectSilence(t, conn)
	set(t, p, fault.Pass())
	expect(t, conn, "soon")
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	_, p, conn := connected(t)
	set(t, p, fault.Throttle(100_000))
	text := strings.Repeat("x", 60_000)
	began := time.Now()
	exchange(t, conn, text) // the data of the first tenth of a second is not throttled
	if took := time.Since(began); took < 450*time.Millisecond {
		t.Errorf("60 kB at 100 kB/s took %s, want at least 450ms", took)
	}
	set(t, p, fault.Throttle(1))
	send(t, conn, text)
	set(t, p, fault.Pass())
	expect(t, conn, text)
}

func TestCutAfter(t *testing.T) {
	t.Parallel()
	_, p, conn := connected(t)
	exchange(t, conn, "does not count")
	set(t, p, fault.CutAfter(5))
	send(t, conn, "0123456789")
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if got, err := io.ReadAll(conn); string(got) != "01234" || err != nil {
		t.Errorf("got %q, %v; want 01234 and the end of the stream", got, err)
	}
	fresh := dial(t, p)
	exchange(t, fresh, "0123")
	send(t, fresh, "456")
	expect(t, fresh, "4")
}

func TestCorrupt(t *testing.T) {
	t.Parallel()
	server, p, conn := connected(t)
	set(t, p, fault.Corrupt(4))
	send(t, conn, "aaaaaa")
	expect(t, conn, "aaa`aa")
	send(t, conn, "aaaaaa")
	expect(t, conn, "a`aaa`")
	testkit.Equal(t, server.received(), "aaaaaaaaaaaa", "the server received")
}

func TestSwap(t *testing.T) {
	t.Parallel()
	first, second := startEcho(t), startEcho(t)
	p := fleettest.Proxy(t, first.addr())
	conn := dial(t, p)
	exchange(t, conn, "first")
	must(t, p.Swap("https://"+second.addr()))
	expectReset(t, conn)
	exchange(t, dial(t, p), "second")
	if first.received() != "first" || second.received() != "second" {
		t.Errorf("the servers received %q and %q, want first and second", first.received(), second.received())
	}
}

// A proxy whose upstream server does not exist resets new connections.
func TestDeadUpstream(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_ = listener.Close()
	expectNewIsReset(t, fleettest.Proxy(t, listener.Addr().String()))
}

// After every fault that was set after every other fault, the proxy passes data unchanged. The connections that were in
// use during the faults have no holes in their data.
func TestEveryFaultAfterEveryOther(t *testing.T) {
	t.Parallel()
	p := fleettest.Proxy(t, startEcho(t).addr())
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					chat(t, p.Addr())
				}
			}
		})
	}
	sent := numbered()
	for _, before := range everyFault() {
		for _, after := range everyFault() {
			old := dial(t, p)
			set(t, p, before)
			_, _ = old.Write(sent[:500])
			set(t, p, after)
			_, _ = old.Write(sent[500:])
			set(t, p, fault.Pass())
			_ = old.CloseWrite()
			_ = old.SetReadDeadline(time.Now().Add(patience))
			got, err := io.ReadAll(old)
			expectNoHoles(t, got)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s after %s: the old connection does not end", after, before)
			}
			fresh := dial(t, p)
			exchange(t, fresh, fmt.Sprintf("%s after %s", after, before))
			_ = fresh.Close()
		}
	}
	close(stop)
	clients.Wait()
}

func everyFault() []fault.Fault {
	return []fault.Fault{
		fault.Pass(), fault.Refuse(), fault.Reset(), fault.Blackhole(), fault.NeverRead(), fault.LoseRequests(),
		fault.LoseAnswers(), fault.Hold(), fault.Delay(5*time.Millisecond, 5*time.Millisecond), fault.Throttle(10_000),
		fault.CutAfter(100), fault.Corrupt(10),
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	for _, f := range everyFault() {
		p, err := fault.New(startEcho(t).addr())
		must(t, err)
		conn := dial(t, p)
		send(t, conn, "something to be stuck with")
		set(t, p, f)
		p.Close()
		p.Close()
		testkit.ErrorIs(t, p.Set(fault.Pass()), fault.ErrClosed, "Set after Close")
		testkit.ErrorIs(t, p.Swap(p.Addr()), fault.ErrClosed, "Swap after Close")
		testkit.ErrorIs(t, testkit.Err(net.Dial("tcp", p.Addr())), syscall.ECONNREFUSED, "dial after Close")
		testkit.Equal(t, p.Stats().Open, 0, f, "open connections after Close")
	}
}

func TestNew_RefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	for _, upstream := range []string{"", "localhost", "https://%"} {
		if p, err := fault.New(upstream); err == nil {
			p.Close()
			t.Errorf("New(%q) succeeds, want an error", upstream)
		}
	}
}
