// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

// install runs "hub install" against the hub's cluster and returns its output and its error.
func (h *hub) install(args ...string) (stdout, stderr string, err error) {
	h.t.Helper()
	self, err := os.Executable()
	h.must(err)
	kubeconfig := filepath.Join(h.t.TempDir(), "kubeconfig")
	h.must(os.WriteFile(kubeconfig, h.cluster.Kubeconfig(), 0o600))
	cmd := exec.CommandContext(context.WithoutCancel(h.t.Context()), self, append([]string{"install", "--kubeconfig", kubeconfig}, args...)...)
	var out, problems bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asHub+"=stock"), &out, &problems
	err = cmd.Run()
	return out.String(), problems.String(), err
}

// install requires a confirmation, prints the objects in a dry run, installs, upgrades, and reports a hub that does not
// run.
func TestInstall(t *testing.T) {
	h := newHub(t)
	key := types.NamespacedName{Namespace: "installed", Name: "clusterfx-hub"}
	args := []string{"--namespace=installed", "--image=registry.example.com/hub:v1", "--force-conflicts", "--wait=false"}
	if _, problem, err := h.install(args...); err == nil || !strings.Contains(problem, "confirm it with --yes") ||
		!strings.Contains(problem, "for namespace installed of the cluster at "+h.cluster.Config().Host) {
		t.Errorf("without a terminal, install prints %q", problem)
	}
	if out, problem, err := h.install(append(args, "--dry-run=client")...); err != nil || !strings.Contains(out, "kind: Deployment") {
		t.Errorf("a dry run of the client: %v, %s", err, problem)
	}
	var deployment appsv1.Deployment
	if err := h.Get(t.Context(), key, &deployment); err == nil {
		t.Error("install without --yes creates the Deployment")
	}
	out, problem, err := h.install(append(args, "--yes")...)
	if err != nil || !strings.Contains(out, "deployment.apps/clusterfx-hub serverside-applied\n") {
		t.Fatalf("%v: %s\n%s", err, problem, out)
	}
	if _, problem, err := h.install(append(args, "--yes", "--replicas=3")...); err != nil {
		t.Fatalf("%v: %s", err, problem)
	}
	// No controller starts Pods in this cluster.
	_, problem, err = h.install(append(args[:3:3], "--yes", "--replicas=3", "--timeout=1ms")...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(problem, "error: the hub does not run after 1ms: ") {
		t.Errorf("without --wait=false, install prints %q (%v)", problem, err)
	}
	h.must(h.Get(t.Context(), key, &deployment))
	if *deployment.Spec.Replicas != 3 || deployment.Spec.Template.Spec.Containers[0].Image != "registry.example.com/hub:v1" {
		t.Errorf("the Deployment is %+v", deployment.Spec)
	}
}

// install refuses wrong flags before it asks for a confirmation.
func TestInstall_Refused(t *testing.T) {
	h := newHub(t)
	for flag, want := range map[string]string{
		"--namespace=A_":  `--namespace="A_" is not a name`,
		"--shards=1025":   "--shards=1025: use 1024 or fewer",
		"--replicas=-1":   "--replicas=-1: use 1 or more",
		"--dry-run=maybe": "use none, client or server",
		"--timeout=0s":    "--timeout=0s: use a time above zero",
	} {
		if _, problem, err := h.install(flag, "--image=a"); err == nil || !strings.Contains(problem, want) {
			t.Errorf("install %s prints %q (%v)", flag, problem, err)
		}
	}
}
