// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// asAgents makes the test binary a process with that number of agents.
const asAgents = "TUNNEL_TEST_AGENTS"

// agentsMain runs agents until its input ends. Its output has their keys.
func agentsMain() int {
	n, _ := strconv.Atoi(os.Getenv(asAgents))
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // It is a main function.
	defer cancel()
	var running sync.WaitGroup
	for range n {
		key, err := NewKey()
		if err != nil {
			return 1
		}
		a := &Agent{
			Hub: "ws://" + os.Getenv("TUNNEL_TEST_HUB"), HubKeys: []string{os.Getenv("TUNNEL_TEST_KEY")},
			Key: func() (Key, error) { return key, nil }, To: "127.0.0.1:1", Version: "v1", Log: logr.Discard(),
		}
		_, _ = fmt.Fprintln(os.Stdout, key.Fingerprint())
		running.Go(func() { _ = a.Run(ctx) })
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	cancel()
	running.Wait()
	return 0
}

// Promise: 1 000 agents cost a replica at most 60 KiB and 8 goroutines each at rest, and are back within 30 s after its restart.
func TestMeasure_Agents(t *testing.T) {
	fleettest.Slow(t, "./internal/tunnel TestHub_dialsThroughTheAgent")
	n := 1000
	if text := os.Getenv("TUNNEL_TEST_N"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	s := newStand(t, nil)
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), asAgents+"="+strconv.Itoa(n), "TUNNEL_TEST_HUB="+s.addr, "TUNNEL_TEST_KEY="+s.key.Fingerprint())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	memory, goroutines, cpu := heap(), runtime.NumGoroutine(), processorTime(t)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for i := range n {
		lines.Scan()
		s.mu.Lock()
		s.owner[strings.TrimSpace(lines.Text())] = "edge-" + strconv.Itoa(i)
		s.mu.Unlock()
	}
	begin := time.Now()
	all := func() {
		t.Helper()
		eventually(t, func() error {
			if got := s.hub.Agents(); got != n {
				return fmt.Errorf("%d agents are connected", got)
			}
			return nil
		})
	}
	all()
	t.Logf("%d agents connected after %s, %s of processor time for each handshake", n, time.Since(begin), (processorTime(t)-cpu)/time.Duration(n))
	bytes, routines := (heap()-memory)/n, float64(runtime.NumGoroutine()-goroutines)/float64(n)
	t.Logf("%d bytes and %.1f goroutines for each agent", bytes, routines)
	if bytes > 60<<10 || routines > 8 {
		t.Error("that is more than 60 KiB or 8 goroutines")
	}
	s.hub.Close() // A restart: all connections end, and another hub is at the address.
	owner, addr := s.owner, s.addr
	s.end()
	again := newStandAt(t, nil, addr, s.key)
	again.mu.Lock()
	again.owner = owner
	again.mu.Unlock()
	s.hub, begin = again.hub, time.Now()
	all()
	t.Logf("all are back %s after a restart", time.Since(begin))
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("they were back after %s", took)
	}
}

// heap includes stacks.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse) //nolint:gosec // It fits.
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkGet prints how long a GET takes directly and through the tunnel, in turns, and a GET beside as many stopped readers as the
// tunnel takes.
func BenchmarkGet(b *testing.B) {
	s := newStand(b, server())
	s.connected("edge")
	direct, through := s.api.Client(), s.client("edge")
	took := map[string][]time.Duration{}
	measure := func(name string, c *http.Client) {
		begin := time.Now()
		_, err := s.get(c)
		must(b, err)
		took[name] = append(took[name], time.Since(begin))
	}
	for b.Loop() {
		measure("direct", direct)
		measure("tunnel", through)
	}
	for range maxStreams - 1 {
		s.stopped("edge")
	}
	for range len(took["direct"]) {
		measure("stopped", through)
	}
	for name, all := range took {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), name+"-p50-us")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), name+"-p99-us")
	}
}

// BenchmarkList is a response of 20 MiB over a way with a round trip of 50 ms.
func BenchmarkList(b *testing.B) {
	s := newStand(b, server())
	key := newKey(b)
	s.accept(key, "edge")
	a := s.agent(key)
	door := s.slowDoor(25 * time.Millisecond)
	a.Hub = "ws://" + door
	run(b, a)
	s.waitConnected("edge", true)
	c := s.client("edge")
	for b.Loop() {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.api.URL+"/big", nil)
		must(b, err)
		response, err := c.Do(r)
		must(b, err)
		n, err := bufio.NewReader(response.Body).WriteTo(discard{})
		must(b, err)
		b.SetBytes(n)
		_ = response.Body.Close()
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// slowDoor forwards with a delay each way, as fast as it comes.
func (s *stand) slowDoor(delay time.Duration) string {
	s.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var work sync.WaitGroup
	s.t.Cleanup(func() {
		cancel()
		_ = l.Close()
		work.Wait()
	})
	work.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
			must(s.t, err)
			context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })
			work.Go(func() { delayed(from, to, delay) })
			work.Go(func() { delayed(to, from, delay) })
		}
	})
	return l.Addr().String()
}

type piece struct {
	data []byte
	due  time.Time
}

func delayed(from, to net.Conn, delay time.Duration) {
	queue := make(chan piece, 1<<16)
	var writing sync.WaitGroup
	writing.Go(func() {
		for p := range queue {
			<-time.After(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close()
			}
		}
		_ = to.Close()
	})
	for {
		buffer := make([]byte, 32<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			queue <- piece{buffer[:n], time.Now().Add(delay)}
		}
		if err != nil {
			close(queue)
			writing.Wait()
			return
		}
	}
}
