// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// unguard finds the command of docs/operating.md that removes the finalizers.
var unguard = regexp.MustCompile(`(?m)^kubectl -n clusterfx-system patch --type=merge .*\\\n.*$`)

// A hub leaves Leases that a deletion of the namespace waits for, until the command of the page on uninstalling.
func TestUninstall_LeasesOfShards(t *testing.T) {
	t.Parallel()
	command := unguard.FindString(testkit.Read(t, "../../../../docs/operating.md"))
	if command == "" {
		t.Fatal("docs/operating.md has no command that removes the finalizers")
	}
	cluster := fleettest.Cluster(t, "hub")
	c := clientFor(t, cluster)
	namespace := fleettest.Namespace(t, c, "uninstall-")
	const count = 4
	end := startReplica(t, cluster, replica.Options{Namespace: namespace, Pod: "a", Count: count})
	eventually(t, func() error {
		survey, err := replica.ReadSurvey(t.Context(), c, namespace)
		if err != nil || slices.Contains(survey.Holders, "") {
			return fmt.Errorf("the replica does not have all shards: %+v (%w)", survey, err)
		}
		return nil
	})
	end()
	left := func() int {
		var all coordinationv1.LeaseList
		must(t, c.List(t.Context(), &all, client.InNamespace(namespace)))
		return len(all.Items)
	}
	must(t, c.DeleteAllOf(t.Context(), &coordinationv1.Lease{}, client.InNamespace(namespace)))
	testkit.Equal(t, left(), count+1, "the records that a deletion leaves")
	shell(t, cluster, strings.ReplaceAll(command, "clusterfx-system", namespace))
	testkit.Equal(t, left(), 0, "the Leases after the command")
}

func shell(t *testing.T, cluster *fleet.Cluster, command string) {
	t.Helper()
	kubectl, err := fleet.Binary("kubectl")
	must(t, err)
	config := testkit.File(t, "kubeconfig", cluster.Kubeconfig())
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", command) //nolint:gosec // a test
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "PATH="+filepath.Dir(kubectl)+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}
