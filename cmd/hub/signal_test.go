// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// The second signal ends a hub that does not stop. Before that, the hub writes the part of the log that waits for a
// reader, if there is a reader.
func TestRun_SecondSignalWritesTheLog(t *testing.T) {
	t.Parallel()
	hub := create(t, fleettest.New(t, fleet.Options{}), "hub")
	install(t, hub)
	read, log := stalledPipe(t)
	debug := fleettest.FreeAddress(t)
	p := startTo(t, log, []string{asHub + "=" + asDeadlocked}, "run", "--kubeconfig="+withDeadlock(t, hub),
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--debug-bind-address="+debug)
	secret := registration("one", hub)
	secret.Data["kubeconfig"] = []byte("no kubeconfig")
	must(t, clientFor(t, hub).Create(t.Context(), secret))
	soon(t, func() error {
		stacks, err := page(t, debug, "/debug/pprof/goroutine?debug=2")
		if err == nil && !strings.Contains(stacks, "deadlock.WrapTransport") {
			err = errors.New("the hub is not deadlocked")
		}
		return err
	})
	// Both signals and the reader are ready when the hub continues.
	p.signal(syscall.SIGSTOP)
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGINT)
	must(t, log.Close())
	text := make(chan string)
	go func() {
		all, _ := io.ReadAll(read)
		text <- string(all)
	}()
	p.signal(syscall.SIGCONT)
	_ = p.exit()
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if got := status.Signal(); !ok || got != syscall.SIGINT && got != syscall.SIGTERM {
		t.Errorf("the hub ends with %s, want the signal", p.cmd.ProcessState)
	}
	if all := <-text; !strings.Contains(all, "Starting the hub") {
		t.Errorf("the log is lost: %q", strings.Trim(all, "\x00"))
	}
}
