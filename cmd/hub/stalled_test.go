// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// A hub whose log has no reader works at the levels info and debug: remotes become Ready, Paused is honoured, /healthz
// is ok, and SIGTERM ends the hub within the grace period.
func TestRun_StalledLog(t *testing.T) {
	t.Parallel()
	f := fleettest.New(t, fleet.Options{})
	clusters := createAll(t, f, "edge", "hub-info", "hub-debug")
	for i, level := range []string{"info", "debug"} {
		hub := clusters[i+1]
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			kubeconfig, health := install(t, hub), fleettest.FreeAddress(t)
			must(t, clientFor(t, hub).Create(t.Context(), registration("one", clusters[0])))
			_, log := stalledPipe(t)
			p := startTo(t, log, []string{asHub + "=" + asStock}, "run", "--kubeconfig="+kubeconfig,
				"--allow-cidr=127.0.0.0/8", "--metrics-bind-address=0", "--health-probe-bind-address="+health, "--log-level="+level)
			waitForCluster(t, hub, "one")
			const cluster = "clusters.clusterfx.dev/one"
			kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "--timeout=90s", cluster)
			kubectl(t, kubeconfig, "patch", cluster, "--type=merge", `--patch={"spec":{"state":"Paused"}}`)
			kubectl(t, kubeconfig, "wait", "--for=condition=Ready=Unknown", "--timeout=60s", cluster)
			eventually(t, func() error {
				_, err := page(t, health, "/healthz")
				return err
			})
			begin := time.Now()
			p.signal(syscall.SIGTERM)
			p.expectExit(0)
			if took := time.Since(begin); took > gracePeriod {
				t.Errorf("the hub ends %s after SIGTERM, which is too late", took)
			}
		})
	}
}

// stalledPipe returns the ends of a full pipe without a reader. Writes to it block, as in a container.
func stalledPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	var ends [2]int
	must(t, syscall.Pipe2(ends[:], syscall.O_CLOEXEC))
	read, write = os.NewFile(uintptr(ends[0]), "read"), os.NewFile(uintptr(ends[1]), "write")
	t.Cleanup(func() {
		_ = read.Close()
		_ = write.Close()
	})
	must(t, syscall.SetNonblock(ends[1], true))
	for chunk := make([]byte, 4096); ; {
		if _, err := syscall.Write(ends[1], chunk); err != nil {
			break
		}
	}
	must(t, syscall.SetNonblock(ends[1], false))
	return read, write
}
