// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/examples/quota/quota"
	"github.com/clusterfx/clusterfx/modules"
)

// asHub is the variable that makes the test binary a hub, so that tests run main in a process of its own, with the race
// detector, and without a build.
const (
	asHub = "CLUSTERFX_TEST_AS_HUB"
	// asStock is the stock hub, asQuota that of the example; the others are hubs with one module.
	asStock    = "stock"
	asQuota    = "quota"
	asWriter   = "writer"
	asTalker   = "talker"
	asPanicker = "panicker"
)

func TestMain(m *testing.M) {
	switch os.Getenv(asHub) {
	case asStock:
		main()
	case asQuota:
		os.Exit(app.Main(append(modules.All(), quota.Module)...)) //nolint:forbidigo // This process is a hub and no test.
	case asWriter:
		os.Exit(app.Main(writer())) //nolint:forbidigo // This process is a hub and no test.
	case asTalker:
		os.Exit(app.Main(talker())) //nolint:forbidigo // This process is a hub and no test.
	case asPanicker:
		os.Exit(app.Main(panicker())) //nolint:forbidigo // This process is a hub and no test.
	}
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(3)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

// patience is the time that a test waits for a condition that takes some seconds, or, with everything ten times as
// large, a minute. The machine may be busy.
func patience() time.Duration { return 10 * time.Minute }

// program is a hub in a process of its own.
type program struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	wait           func() error
}

// start runs the stock hub with these arguments. It is killed when the test ends.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	return startWith(t, []string{asHub + "=" + asStock}, args...)
}

func startWith(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	return startAs(t, func(*exec.Cmd) {}, env, args...)
}

func startIn(t *testing.T, dir string, env []string, args ...string) *program {
	t.Helper()
	return startAs(t, func(cmd *exec.Cmd) { cmd.Dir = dir }, env, args...)
}

func startAs(t *testing.T, change func(*exec.Cmd), env []string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	p := &program{t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), self, args...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // Its servers are lent to others next.
	change(p.cmd)
	must(t, p.cmd.Start())
	p.wait = sync.OnceValue(p.cmd.Wait)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.wait()
		if t.Failed() {
			t.Logf("%s\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

func (p *program) exit() int {
	p.t.Helper()
	stuck := time.AfterFunc(patience(), func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	defer stuck.Stop()
	var failed *exec.ExitError
	if err := p.wait(); err != nil && !errors.As(err, &failed) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// expectExit fails the test unless the process ends with the code.
func (p *program) expectExit(code int) {
	p.t.Helper()
	if got := p.exit(); got != code {
		p.t.Fatalf("%s exits with %d, want %d", strings.Join(p.cmd.Args[1:], " "), got, code)
	}
}

func (p *program) expect(o *output, text string) {
	p.t.Helper()
	eventually(p.t, func() error {
		if got := o.String(); !strings.Contains(got, text) {
			return fmt.Errorf("no %q in %q", text, got)
		}
		return nil
	})
}

// expectNot fails the test if the output of the process contains the text.
func (p *program) expectNot(o *output, text string) {
	p.t.Helper()
	if got := o.String(); strings.Contains(got, text) {
		p.t.Errorf("%s: unexpected %q in %q", strings.Join(p.cmd.Args[1:], " "), text, got)
	}
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(s))
}

// output is the output of a process so far.
type output struct {
	mu   sync.Mutex // protects text
	text bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func kubectl(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t, kubeconfig, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// kubectlFails runs kubectl, which must fail, and returns its output.
func kubectlFails(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t, kubeconfig, args...)
	if err == nil {
		t.Fatalf("kubectl %s succeeds:\n%s", strings.Join(args, " "), out)
	}
	return out
}

func tryKubectl(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	path, err := fleet.Binary("kubectl")
	must(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	// A cache of discovery must not outlive its API server: ports are used again.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}
