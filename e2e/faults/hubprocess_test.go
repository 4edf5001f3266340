// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/tools/clientcmd"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// asHub is the environment variable that makes the test binary a hub, whose process can have lower limits than the
// test. Its value is the file with the kubeconfig of the hub's cluster.
const asHub = "CLUSTERFX_TEST_FAULTS_AS_HUB"

// mainOfHub runs a hub until it gets SIGTERM.
func mainOfHub() int {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM) //nolint:forbidigo // This is a main.
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(asHub))
	if err == nil {
		config.QPS = -1
		o := app.Options{Config: config, Alone: true}
		o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		o.Registry.AllowDuplicates, o.Registry.Replica = true, replica
		o.Modules = []registry.Module{newStopwatch().module(), burner(), new(mirror).module()}
		err = app.Run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// burning has the time for which the module burner starves its hub, by signal.
var burning = map[os.Signal]time.Duration{
	burnShortly: 10 * time.Second,
	burnLong:    25 * time.Second,
}

const (
	burnShortly = syscall.SIGUSR1
	burnLong    = syscall.SIGUSR2
	burners     = 400
)

// burner is a module that uses all processor time for a while.
func burner() registry.Module {
	return registry.NewModule("burner", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Invoke(func() {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, burnShortly, burnLong)
		go func() {
			for which := range asked {
				end := time.Now().Add(burning[which])
				for range burners {
					go burn(end)
				}
			}
		}()
	})})
}

func burn(end time.Time) {
	for n := 0; n%1_000_000 > 0 || time.Now().Before(end); n++ {
		runtime.KeepAlive(n)
	}
}

type hubProcess struct {
	cmd   *exec.Cmd
	wait  func() error
	ended chan struct{} // closed when the process has ended
}

// startHubProcess starts a hub in a shell that sets limits, with additional environment variables. The process is
// killed when the test ends.
func (s *stage) startHubProcess(t *testing.T, limits string, env ...string) *hubProcess {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	file := filepath.Join(t.TempDir(), "hub.kubeconfig")
	must(t, os.WriteFile(file, s.hub.Kubeconfig(), 0o600))
	p := &hubProcess{cmd: exec.Command("/bin/sh", "-c", limits+` && exec "$0"`, self), ended: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), env...), asHub+"="+file)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, p.cmd.Start())
	p.wait = sync.OnceValue(p.cmd.Wait)
	go func() {
		defer close(p.ended)
		_ = p.wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// expectAlive fails the test if the process has ended, with any status. Otherwise it stops the process with SIGTERM, and
// fails the test if the process ends with an error.
func (p *hubProcess) expectAlive(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatalf("the hub process has ended before SIGTERM, with error %v", p.wait())
	default:
	}
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
		testkit.NoError(t, p.wait(), "the hub process ended with error")
	case <-time.After(patience):
		t.Errorf("the hub process has not ended after %s", patience)
	}
}
