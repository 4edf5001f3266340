// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/modules"
)

// asHub is the variable that makes the test binary a hub: the stock hub, a hub with a test module, or else a hub that
// does not stop.
const asHub = "CLUSTERFX_TEST_AS_HUB"

func mainOfHub() int {
	switch os.Getenv(asHub) {
	case "stock":
		return app.Main(modules.All()...)
	case "certs":
		return app.Main(certsModule())
	case "limited":
		return app.Main(limitedModule())
	}
	return app.Main(hubModule(fx.Invoke(func(l fx.Lifecycle, m ctrl.Manager) error {
		l.Append(fx.StopHook(func(ctx context.Context) {
			fmt.Println("stopping")
			<-ctx.Done()
		}))
		return m.Add(manager.RunnableFunc(func(context.Context) error {
			fmt.Println("running")
			return nil
		}))
	})))
}

// The first signal stops the hub in good order; a second signal ends it.
func TestMain_SecondSignal(t *testing.T) {
	h := newHub(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	h.must(os.WriteFile(kubeconfig, h.cluster.Kubeconfig(), 0o600))
	self, err := os.Executable()
	h.must(err)
	cmd := exec.CommandContext(t.Context(), self, "run", "--kubeconfig="+kubeconfig,
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--log-level=error")
	cmd.Env, cmd.Stderr = append(os.Environ(), asHub+"=yes"), t.Output()
	stdout, err := cmd.StdoutPipe()
	h.must(err)
	h.must(cmd.Start())
	said := bufio.NewScanner(stdout)
	for _, word := range []string{"running", "stopping"} {
		if !said.Scan() || said.Text() != word {
			t.Fatalf("the hub prints %q, want %q", said.Text(), word)
		}
		h.must(cmd.Process.Signal(syscall.SIGTERM))
	}
	_ = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("the hub ends with %s, want the signal", cmd.ProcessState)
	}
}
