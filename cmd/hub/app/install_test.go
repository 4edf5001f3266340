// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules"
)

// install runs "hub install" against the hub's cluster and returns its exit status and its output.
func (h *hub) install(args ...string) (code int, stdout, stderr string) {
	h.t.Helper()
	return h.execute(modules.All(), append([]string{"install"}, args...)...)
}

// previewed finds the command of docs/operating.md that shows what an upgrade would change.
var previewed = regexp.MustCompile("`hub install --export \\| (kubectl diff [^`]+)`")

// preview returns what that command prints with the flags of an installation.
func (h *hub) preview(args ...string) string {
	h.t.Helper()
	command := previewed.FindStringSubmatch(testkit.Read(h.t, "../../../docs/operating.md"))
	if command == nil {
		h.t.Fatal("docs/operating.md has no command that shows what an upgrade would change")
	}
	_, objects, _ := h.install(append(args, "--export")...)
	kubectl, err := fleet.Binary("kubectl")
	h.must(err)
	cmd := exec.CommandContext(h.t.Context(), "sh", "-c", command[1]) //nolint:gosec // a test
	cmd.Env = append(os.Environ(), "KUBECONFIG="+testkit.File(h.t, "kubeconfig", h.cluster.Kubeconfig()), "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	cmd.Stdin = strings.NewReader(objects)
	diff, err := cmd.CombinedOutput() // It fails if there is a difference.
	if err != nil && len(diff) == 0 {
		h.t.Fatal(err)
	}
	return string(diff)
}

// install requires a confirmation, prints the objects in a dry run, installs, upgrades, and reports a hub that does not run.
func TestInstall(t *testing.T) {
	t.Parallel()
	h := newHubIn(t, pool.Remote)
	key := types.NamespacedName{Namespace: "installed", Name: "clusterfx-hub"}
	args := []string{"--namespace=installed", "--image=registry.example.com/hub:v1", "--force-conflicts", "--wait=false"}
	if code, _, problem := h.install(args...); code == 0 || !strings.Contains(problem, "confirm it with --yes") ||
		!strings.Contains(problem, "for namespace installed of the cluster at "+h.cluster.Config().Host) {
		t.Errorf("without a terminal, install prints %q", problem)
	}
	if code, out, problem := h.install(append(args, "--dry-run=client")...); code != 0 || !strings.Contains(out, "kind: Deployment") {
		t.Errorf("a dry run of the client: %d, %s", code, problem)
	}
	var deployment appsv1.Deployment
	if err := h.Get(t.Context(), key, &deployment); err == nil {
		t.Error("install without --yes creates the Deployment")
	}
	code, out, problem := h.install(append(args, "--yes")...)
	if code != 0 || !strings.Contains(out, "deployment.apps/clusterfx-hub serverside-applied\n") {
		t.Fatalf("%d: %s\n%s", code, problem, out)
	}
	testkit.Equal(t, h.preview(args...), "", "the preview of what is installed")
	if diff := h.preview(append(args, "--image=registry.example.com/hub:v2")...); !strings.Contains(diff, "\n+        image: registry.example.com/hub:v2\n") {
		t.Errorf("the preview of another image is %q", diff)
	}
	if code, _, problem := h.install(append(args, "--yes", "--replicas=3")...); code != 0 {
		t.Fatalf("%d: %s", code, problem)
	}
	// No controller starts Pods in this cluster.
	code, _, problem = h.install(append(args[:3:3], "--yes", "--replicas=3", "--timeout=1ms")...)
	if code != 2 || !strings.Contains(problem, "error: the hub does not run after 1ms: ") {
		t.Errorf("without --wait=false, install prints %q (%d)", problem, code)
	}
	h.must(h.Get(t.Context(), key, &deployment))
	if *deployment.Spec.Replicas != 3 || deployment.Spec.Template.Spec.Containers[0].Image != "registry.example.com/hub:v1" {
		t.Errorf("the Deployment is %+v", deployment.Spec)
	}
}

// install refuses wrong flags before it asks for a confirmation.
func TestInstall_Refused(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for flag, want := range map[string]string{
		"--namespace=A_":       `--namespace="A_" is not a name`,
		"--shards=1025":        "--shards=1025: use 1024 or fewer",
		"--replicas=0":         "--replicas=0: use 1 or more",
		"--active-replicas=-1": "--active-replicas=-1: use a number from 1 to that of --shards, 32",
		"--dry-run=maybe":      "use none, client or server",
		"--timeout=0s":         "--timeout=0s: use a time above zero",
	} {
		if code, _, problem := h.install(flag, "--image=a"); code == 0 || !strings.Contains(problem, want) {
			t.Errorf("install %s prints %q (%d)", flag, problem, code)
		}
	}
}
