// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
)

// asHub is the variable that makes the test binary a hub that does not stop.
const asHub = "CLUSTERFX_TEST_AS_HUB"

func mainOfHub() int {
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

// A hub whose log has no reader works. The first signal stops it in good order; a second signal ends it.
func TestMain_SecondSignal(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	self, err := os.Executable()
	h.must(err)
	log := stalledPipe(t)
	cmd := exec.CommandContext(t.Context(), self, "run", "--kubeconfig="+kubeconfigOf(t, h.cluster),
		"--metrics-bind-address=0", "--health-probe-bind-address=0")
	cmd.Env, cmd.Stderr = append(os.Environ(), asHub+"=yes"), log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	h.must(err)
	h.must(cmd.Start())
	said := bufio.NewScanner(stdout)
	expect := func(word string) {
		t.Helper()
		if !said.Scan() || said.Text() != word {
			t.Fatalf("the hub prints %q, want %q", said.Text(), word)
		}
	}
	expect("running")
	h.must(cmd.Process.Signal(syscall.SIGTERM))
	expect("stopping")
	h.must(cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // How it ended is compared.
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("the hub ends with %s, want the signal", cmd.ProcessState)
	}
}

// stalledPipe returns the end of a full pipe without a reader. Writes to it block, as in a container.
func stalledPipe(t *testing.T) (write *os.File) {
	t.Helper()
	var ends [2]int
	must(t, syscall.Pipe2(ends[:], syscall.O_CLOEXEC))
	read := os.NewFile(uintptr(ends[0]), "read")
	write = os.NewFile(uintptr(ends[1]), "write")
	t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	_ = syscall.SetNonblock(ends[1], true)
	for chunk := make([]byte, 4096); ; {
		if _, err := syscall.Write(ends[1], chunk); err != nil {
			break
		}
	}
	_ = syscall.SetNonblock(ends[1], false)
	return write
}
