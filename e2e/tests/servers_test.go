// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
)

// asBorrower is the variable that makes the test binary a process that borrows a cluster, leaves a Namespace in it, and ends
// as the value says.
const asBorrower = "CLUSTERFX_TEST_AS_BORROWER"

// borrow prints the server that it has borrowed, and what others have left in it.
func borrow(how string) {
	ctx := context.Background() //nolint:forbidigo // This process is no test.
	lender := pool.Borrow(os.Getenv(pool.Socket), "test")
	c, err := lender.Take(ctx, pool.Remote)
	if err != nil {
		panic(err)
	}
	kube := kubernetes.NewForConfigOrDie(c.Config())
	left, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "own", Finalizers: []string{"example.com/never"}}}
	if _, err := kube.CoreV1().Namespaces().Create(ctx, own, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	println(c.Server(), len(left.Items))
	switch how {
	case "killed":
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {}
	case "restarted":
		for _, err := range []error{c.Kill(), c.Restart(ctx), c.Pause(), c.Resume(), lender.GiveBack(ctx, c)} {
			if err != nil {
				panic(err)
			}
		}
	}
	os.Exit(3) //nolint:forbidigo // This process is no test.
}

// A server goes from one process to the next without what the first has left there, also if the first is killed; all end with
// the command, whose exit code is passed on.
func TestServers_Lend(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	program := filepath.Join(t.TempDir(), "servers")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../servers").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	script := asBorrower + "=killed " + self + "; " + asBorrower + "=restarted " + self + "; " + asBorrower + "=ended " + self
	command := exec.CommandContext(t.Context(), program, "sh", "-c", script)
	command.Env = slices.DeleteFunc(os.Environ(), func(one string) bool { return strings.HasPrefix(one, pool.Socket+"=") })
	var output bytes.Buffer
	command.Stderr = &output
	_ = command.Run()
	if code := command.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d, want that of the last process, 3\n%s", code, output.String())
	}
	var servers []string
	for line := range strings.Lines(output.String()) {
		if url, left, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(url, "https://") {
			servers = append(servers, url)
			if want := "4"; left != want { // default, kube-node-lease, kube-public, kube-system
				t.Errorf("a borrowed server has %s Namespaces, want %s", left, want)
			}
		}
	}
	if len(servers) != 3 || servers[0] != servers[1] || servers[1] != servers[2] {
		t.Errorf("the processes have borrowed %v, want one server three times\n%s", servers, output.String())
	}
	if len(servers) > 0 {
		expectGone(t, strings.TrimPrefix(servers[0], "https://"))
	}
}

// expectGone waits until nothing listens at an address.
func expectGone(t *testing.T, address string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(late) {
			t.Fatalf("a server still listens at %s", address)
		}
	}
}
