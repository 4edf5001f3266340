// SPDX-License-Identifier: Apache-2.0

package main

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// piece is a period for which a process is stopped, and the period after it for which it runs.
type piece struct{ stopped, runs time.Duration }

// Two hubs, a leader and a standby, get a tenth of their time, in long and in short pieces, for longer than three
// heartbeats take. Neither misses heartbeats, and the lease keeps its holder.
func TestFreeze_StarvedReplicas(t *testing.T) {
	t.Parallel()
	total := 45 * time.Second
	if allFaults() {
		total = 5 * time.Minute
	}
	hub := create(t, fleettest.New(t, fleet.Options{}), "hub")
	kubeconfig, direct := install(t, hub), clientFor(t, hub)
	var hubs []*program
	var health []string
	for _, replica := range []string{"a", "b"} {
		health = append(health, fleettest.FreeAddress(t))
		hubs = append(hubs, start(t,
			"run", "--kubeconfig="+kubeconfig, "--leader-elect", "--replica-name="+replica,
			"--metrics-bind-address=0", "--health-probe-bind-address="+health[len(health)-1],
			// Long enough that only missed heartbeats can lose the lease.
			"--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=80s",
		))
		// The first hub has the lease before the second hub starts.
		soon(t, func() error { return expectLease(t, direct, "a", 0) })
	}
	secret := registration("one", hub)
	secret.Data["kubeconfig"] = []byte("no kubeconfig")
	must(t, direct.Create(t.Context(), secret))
	waitForCluster(t, hub, "one")

	var starving errgroup.Group
	for _, p := range hubs {
		starving.Go(func() error { return p.starve(total) })
	}
	must(t, starving.Wait())
	for _, address := range health {
		soon(t, func() error {
			_, err := page(t, address, "/healthz")
			return err
		})
	}
	must(t, expectLease(t, direct, "a", 0))
	for _, p := range hubs {
		p.expectNot(&p.stderr, "Heartbeats missed")
	}
}

// starve stops and continues the process repeatedly.
func (p *program) starve(total time.Duration) error {
	pieces := []piece{{2 * time.Second, 200 * time.Millisecond}}
	for range 10 {
		pieces = append(pieces, piece{250 * time.Millisecond, 25 * time.Millisecond})
	}
	for end := time.Now().Add(total); time.Now().Before(end); {
		for _, one := range pieces {
			if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			pause(one.stopped)
			if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				return err
			}
			pause(one.runs)
		}
	}
	return nil
}
