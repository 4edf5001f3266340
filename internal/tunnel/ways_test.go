// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Faults of the way between agent and hub.

// behindDoor runs an agent that reaches the hub through a door with faults.
func (s *stand) behindDoor(remote string) *fault.Proxy {
	s.t.Helper()
	door, key := s.door(), newKey(s.t)
	s.accept(key, remote)
	a := s.agent(key)
	a.Hub = "ws://" + door.Addr()
	run(s.t, a)
	s.waitConnected(remote, true)
	return door
}

// Promise: a connection that is reset, cut in the middle or changed on the way ends with an error, and never as a short or changed
// response; the agent connects again by itself.
func TestTunnel_brokenWays(t *testing.T) {
	t.Parallel()
	for _, f := range []fault.Fault{fault.Reset(), fault.CutAfter(3000), fault.Corrupt(700)} {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			s := newStand(t, server())
			door := s.behindDoor("edge")
			c := s.client("edge")
			watch := open(t, s, c, "/watch")
			must(t, door.Set(f))
			eventually(t, func() error { // Requests are what comes through the door from the hub.
				text, err := s.get(c)
				if err == nil && text != "HTTP/2.0 true" {
					t.Errorf("got %q", text)
				}
				if err == nil {
					return errors.New("the connection has not ended")
				}
				return nil
			})
			if _, err := io.Copy(io.Discard, watch.Body); err == nil {
				t.Error("a watch has ended without an error")
			}
			must(t, door.Set(fault.Pass()))
			eventually(t, func() error {
				_, err := s.get(c)
				return err
			})
		})
	}
}

// A slow way is slow, and no reason to end a connection.
func TestTunnel_slowWays(t *testing.T) {
	t.Parallel()
	for _, f := range []fault.Fault{fault.Delay(100*time.Millisecond, 50*time.Millisecond), fault.Throttle(16 << 10)} {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			s := newStand(t, server())
			door := s.behindDoor("edge")
			since := s.hub.State("edge").Since
			must(t, door.Set(f))
			for range 5 {
				text, err := s.get(s.client("edge"))
				must(t, err)
				testkit.Equal(t, text, "HTTP/2.0 true", "the response")
			}
			testkit.Equal(t, s.hub.State("edge").Since, since, "the time of the connection")
		})
	}
}

// Promise: both sides notice within 20 s that the other is silent.
func TestTunnel_noticesSilence(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./internal/tunnel TestHub_noticesACut")
	for _, f := range []fault.Fault{fault.Blackhole(), fault.LoseAnswers(), fault.LoseRequests(), fault.Hold(), fault.NeverRead()} {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			s := newStand(t, server())
			door := s.behindDoor("edge")
			c := s.client("edge")
			watch := open(t, s, c, "/watch")
			begin := time.Now()
			must(t, door.Set(f))
			s.waitConnected("edge", false)
			took := time.Since(begin)
			if _, err := io.Copy(io.Discard, watch.Body); err == nil {
				t.Error("a watch has ended without an error")
			}
			if took > sendPingAfter+pingTimeout+2*time.Second {
				t.Errorf("the hub has noticed after %s", took)
			}
			must(t, door.Set(fault.Pass()))
			begin = time.Now()
			s.waitConnected("edge", true)
			t.Logf("noticed after %s, back after %s", took, time.Since(begin))
		})
	}
}

// Promise: pings keep a tunnel at rest open through a proxy that ends idle connections, and the agent comes back through one that ends
// them sooner.
func TestTunnel_idleProxies(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./internal/tunnel TestTunnel_brokenWays")
	for idle, stays := range map[time.Duration]bool{sendPingAfter + 3*time.Second: true, sendPingAfter / 4: false} {
		t.Run(idle.String(), func(t *testing.T) {
			t.Parallel()
			s := newStand(t, server())
			way := idleProxy(t, s.addr, idle)
			key := newKey(t)
			s.accept(key, "edge")
			a := s.agent(key)
			a.Hub = "ws://" + way
			run(t, a)
			s.waitConnected("edge", true)
			since := s.hub.State("edge").Since
			<-time.After(2 * (idle + time.Second))
			eventually(t, func() error {
				_, err := s.get(s.client("edge"))
				return err
			})
			testkit.Equal(t, s.hub.State("edge").Since.Equal(since), stays, "the connection is the same")
		})
	}
}

// idleProxy ends connections on which nothing has come from a side for that long.
func idleProxy(t *testing.T, to string, idle time.Duration) (address string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	var work sync.WaitGroup
	pass := func(from, to net.Conn) {
		defer func() { _, _ = from.Close(), to.Close() }()
		for part := make([]byte, 32<<10); ; {
			_ = from.SetReadDeadline(time.Now().Add(idle))
			n, err := from.Read(part)
			if _, failed := to.Write(part[:n]); err != nil || failed != nil {
				return
			}
		}
	}
	work.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			work.Go(func() { pass(in, out) })
			work.Go(func() { pass(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	return l.Addr().String()
}
