// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// kubectl runs the real kubectl against the cluster and returns its output.
func kubectl(t *testing.T, cluster *fleet.Cluster, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), kubectlPath(t), args...) //nolint:gosec // a test
	// kubectl caches discovery for hours by the server's address, which may have belonged to another cluster.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(cluster.Dir(), "admin.kubeconfig"), "KUBECACHEDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}

	return string(out)
}

// kubectlPath returns the kubectl that was built with the API server.
func kubectlPath(t *testing.T) string {
	t.Helper()
	path, err := fleet.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// squeeze makes columns comparable: one space between cells, and no age.
func squeeze(table string) string {
	table = regexp.MustCompile(`\b\d+[smh]+\d*s?\b`).ReplaceAllString(table, "AGE")

	return strings.TrimSpace(regexp.MustCompile(` +`).ReplaceAllString(strings.ReplaceAll(table, " \n", "\n"), " "))
}

func TestKubectl_Get(t *testing.T) {
	t.Parallel()
	cluster, c := hub(t)
	create(t, c, "columns")

	want := "NAME READY REASON VERSION MODULES AGE\ncolumns Unknown Pending AGE"
	if got := squeeze(kubectl(t, cluster, "get", "fxc", "columns")); got != want {
		t.Errorf("columns of a new Cluster: got:\n%s\nwant:\n%s", got, want)
	}

	apply(t, c, "columns", reconciler, reported())
	want = "NAME READY REASON VERSION MODULES AGE\ncolumns True Ready v1.36.3 1/2 AGE"
	if got := squeeze(kubectl(t, cluster, "get", "clusters.clusterfx.dev", "columns")); got != want {
		t.Errorf("columns of a ready Cluster: got:\n%s\nwant:\n%s", got, want)
	}
	want = "NAME READY REASON VERSION MODULES AGE STATE SERVER EXPIRES RUNNER MESSAGE\n" +
		"columns True Ready v1.36.3 1/2 AGE Active https://10.4.0.11:6443 2100-01-02T03:04:05Z hub-0 1 module is running"
	if got := squeeze(kubectl(t, cluster, "get", "fxc", "columns", "-o", "wide")); got != want {
		t.Errorf("wide columns of a ready Cluster: got:\n%s\nwant:\n%s", got, want)
	}
	if got := kubectl(t, cluster, "get", "clusterfx", "-o", "name"); !strings.Contains(got, "cluster.clusterfx.dev/columns\n") {
		t.Errorf("category clusterfx: got %q, want it to list the Cluster", got)
	}
}

func TestKubectl_WaitForReady(t *testing.T) {
	t.Parallel()
	cluster, c := hub(t)
	create(t, c, "awaited")
	go func() {
		ready := condition(hubv1.ConditionReady, metav1.ConditionTrue, hubv1.ReasonReady)
		status := hubac.ClusterStatus().WithObservedGeneration(1).WithConditions(ready)
		if err := c.Status().Apply(t.Context(), hubac.Cluster("awaited").WithStatus(status), reconciler); err != nil {
			t.Error(err)
		}
	}()
	kubectl(t, cluster, "wait", "--for=condition=Ready", "--timeout=30s", "fxc/awaited")
}

// described waits until the API server's OpenAPI v3 index, which it builds after it serves the kind, has the group.
func described(t *testing.T, cluster *fleet.Cluster) {
	t.Helper()
	dc, err := discovery.NewDiscoveryClientForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	indexed := func(context.Context) (bool, error) {
		paths, err := dc.OpenAPIV3().Paths()
		_, ok := paths["apis/"+hubv1.GroupVersion.String()]

		return err == nil && ok, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, indexed); err != nil {
		t.Fatalf("wait for the OpenAPI description: %v", err)
	}
}

func TestKubectl_Explain(t *testing.T) {
	t.Parallel()
	cluster, _ := hub(t)
	described(t, cluster)
	got := kubectl(t, cluster, "explain", "clusters.spec.probe.periodSeconds", "--api-version="+hubv1.GroupVersion.String())
	if want := "periodSeconds is the time between two probes of a remote that is in doubt,"; !strings.Contains(got, want) {
		t.Errorf("got:\n%s\nwant: %s", got, want)
	}
}

func TestKubectl_ApplyKeepsTheStatus(t *testing.T) {
	t.Parallel()
	cluster, c := hub(t)
	create(t, c, "kept")
	apply(t, c, "kept", reconciler, hubac.ClusterStatus().WithObservedGeneration(1).WithVersion("v1.36.3"))
	kubectl(t, cluster, "patch", "fxc/kept", "--type=merge", "-p", `{"spec":{"state":"Paused"},"status":{"version":"v0"}}`)
	got := &hubv1.Cluster{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "kept"}, got); err != nil {
		t.Fatal(err)
	}
	if got.Status.Version != "v1.36.3" || got.Spec.State != hubv1.ClusterPaused || got.Generation != 2 {
		t.Errorf("after the patch: got state %s, version %s, generation %d, want Paused, v1.36.3, 2", got.Spec.State, got.Status.Version, got.Generation)
	}
}
