// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// expectNext returns the next outcome that want accepts, within a bound.
func expectNext(t *testing.T, outcomes <-chan machine.Probed, bound time.Duration, want func(machine.Probed) bool) time.Duration {
	t.Helper()
	began, late := time.Now(), time.NewTimer(bound)
	defer late.Stop()
	for {
		select {
		case o := <-outcomes:
			if want(o) {
				return time.Since(began)
			}
		case <-late.C:
			t.Fatalf("no such outcome within %s", bound)
		}
	}
}

// Between two probes a Connection has no goroutine.
func TestConnection_NoGoroutines(t *testing.T) {
	server, outcomes := newAPIServer(t), make(chan machine.Probed, 100)
	for range 20 {
		c := server.connect(t, Pace{Period: time.Hour, Timeout: time.Minute})
		c.Start(func(o machine.Probed) { outcomes <- o })
		defer c.Close()
	}
	for range 20 {
		if o := <-outcomes; !o.OK {
			t.Errorf("the probe fails: %s", o.Failed.Message)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		all := make([]byte, 4<<20)
		stacks := string(all[:runtime.Stack(all, true)])
		if !strings.Contains(stacks, "probe.(*Connection)") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a goroutine waits between two probes:\n%s", stacks)
		}
	}
}

// A connection that the server ends is in doubt, so that the next probe does not wait longer than the period.
func TestConnection_Lost(t *testing.T) {
	t.Parallel()
	server, outcomes := newAPIServer(t), make(chan machine.Probed, 100)
	c := server.connect(t, Pace{Period: time.Hour, Timeout: time.Minute})
	c.Start(func(o machine.Probed) { outcomes <- o })
	defer c.Close()
	expectNext(t, outcomes, time.Minute, func(o machine.Probed) bool { return o.OK })
	doubted := func() bool {
		c.rounds.mu.Lock()
		defer c.rounds.mu.Unlock()
		return c.rounds.schedule.doubted
	}
	if doubted() {
		t.Error("a connection that works is in doubt")
	}
	server.CloseClientConnections()
	for deadline := time.Now().Add(time.Minute); !doubted(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("a lost connection is not in doubt")
		}
	}
}

// With the default pace a fault is found within half a minute although the TCP connection works, as behind a load balancer.
func TestConnection_FaultsBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	pace := Pace{Period: 5 * time.Second, Timeout: 3 * time.Second}
	if testing.Short() { // The pauses follow the period, but for the second after a failure.
		pace = Pace{Period: pace.Period / 10, Timeout: pace.Timeout / 10}
	}
	for name, c := range map[string]struct {
		change func(*apiServer)
		fails  int // consecutive failures until the remote counts as unreachable
	}{
		"not healthy":          {func(s *apiServer) { s.status = http.StatusInternalServerError }, 3},
		"a dead server, 503":   {func(s *apiServer) { s.status = http.StatusServiceUnavailable }, 3},
		"a dead server, hangs": {func(s *apiServer) { s.hang = true }, 3},
		"a revoked token":      {func(s *apiServer) { s.status = http.StatusUnauthorized }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, outcomes := newAPIServer(t), make(chan machine.Probed, 100)
			link := server.connect(t, pace)
			link.Start(func(o machine.Probed) { outcomes <- o })
			defer link.Close()
			server.waitFor(t, "/readyz", 1) // The second probe: the worst moment is right after a probe.
			server.change(c.change)
			fails := 0
			took := expectNext(t, outcomes, 30*time.Second, func(o machine.Probed) bool {
				if !o.OK {
					fails++
				}
				return fails == c.fails
			})
			t.Logf("after %s; %d requests for /readyz", took.Round(time.Millisecond), server.count("/readyz"))
		})
	}
}

// Status 429 is no failure that counts, and only a refused credential needs no second one.
func TestFail(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]machine.Probed{429: {Throttled: true}, 401: {Fatal: true}, 503: {}} {
		var o machine.Probed
		if fail(&o, &kubeconfig.StatusError{Code: code}); o.OK || o.Throttled != want.Throttled || o.Fatal != want.Fatal {
			t.Errorf("%d: got %+v", code, o)
		}
	}
}

// Swap during a probe and the end of a Connection at any moment are safe.
func TestConnection_SwapAndClose(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	for i := range 20 {
		c := server.connect(t, Pace{Period: time.Millisecond, Timeout: time.Minute})
		c.Start(func(machine.Probed) {})
		server.waitFor(t, identityPath, 2*i+1)
		if err := c.Swap(tokenOf(t, server, "second"), "second"); err != nil {
			t.Error(err)
		}
		c.ProbeNow()
		server.waitFor(t, identityPath, 2*i+2)
		c.Close()
		c.ProbeNow()
		c.Doubt()
		c.SetPace(Pace{Period: time.Second, Timeout: time.Second}, Urgent)
	}
}

const identityPath = "/api/v1/namespaces/kube-system"

func tokenOf(t *testing.T, s *apiServer, token string) kubeconfig.Credential {
	t.Helper()
	return s.parse(t, token).Credential
}
