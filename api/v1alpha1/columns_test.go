// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

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
	testkit.Must(t, err)
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
	testkit.Equal(t, squeeze(kubectl(t, cluster, "get", "fxc", "columns")), want, "columns of a new Cluster")

	apply(t, c, "columns", reconciler, reported())
	want = "NAME READY REASON VERSION MODULES AGE\ncolumns True Ready v1.36.3 1/2 AGE"
	testkit.Equal(t, squeeze(kubectl(t, cluster, "get", "clusters.clusterfx.dev", "columns")), want, "columns of a ready Cluster")
	want = "NAME READY REASON VERSION MODULES AGE STATE SERVER EXPIRES RUNNER MESSAGE\n" +
		"columns True Ready v1.36.3 1/2 AGE Active https://10.4.0.11:6443 2100-01-02T03:04:05Z hub-0 1 module is running"
	testkit.Equal(t, squeeze(kubectl(t, cluster, "get", "fxc", "columns", "-o", "wide")), want, "wide columns of a ready Cluster")
	testkit.Has(t, kubectl(t, cluster, "get", "clusterfx", "-o", "name"), "cluster.clusterfx.dev/columns\n", "category clusterfx")
}
