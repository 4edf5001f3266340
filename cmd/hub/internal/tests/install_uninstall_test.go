// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/mode"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// unguard finds the command of docs/operating.md that removes the finalizers.
var unguard = regexp.MustCompile(`(?m)^kubectl -n clusterfx-system patch --type=merge .*\\\n  lease/clusterfx-hub .*$`)

// A hub in Sharded mode leaves Leases that a deletion of the namespace waits for, until the command of the page on uninstalling.
func TestUninstall_LeasesOfShards(t *testing.T) {
	t.Parallel()
	page := testkit.Read(t, "../../../../docs/operating.md")
	command := unguard.FindString(page)
	if command == "" {
		t.Fatal("docs/operating.md has no command that removes the finalizers")
	}
	cluster := fleettest.Cluster(t, "hub")
	c := clientFor(t, cluster)
	namespace := fleettest.Namespace(t, c, "uninstall-")
	leases := func() (all coordinationv1.LeaseList) {
		must(t, c.List(t.Context(), &all, client.InNamespace(namespace)))
		return all
	}
	const count = 4
	runSharded(t, cluster, namespace, count, func() error {
		for _, l := range leases().Items {
			if l.Name == roles.Lease && len(l.Finalizers) > 0 {
				return nil
			}
		}
		return errors.New("the Lease of leader mode has no finalizer yet")
	})
	must(t, c.DeleteAllOf(t.Context(), &coordinationv1.Lease{}, client.InNamespace(namespace)))
	if left := leases(); len(left.Items) != count+1 {
		t.Errorf("after the deletion %d Leases are left, want those of %d shards and of leader mode", len(left.Items), count)
	}
	shell(t, cluster, strings.ReplaceAll(command, "clusterfx-system", namespace))
	if left := leases(); len(left.Items) != 0 {
		t.Errorf("after the command %d Leases are left", len(left.Items))
	}
}

// runSharded runs a replica in Sharded mode until it has created its shards and a check succeeds.
func runSharded(t *testing.T, cluster *fleet.Cluster, namespace string, count int, check func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sharded, err := mode.NewSharded(mode.Options{
		Config: cluster.Config(), Namespace: namespace, Name: roles.Lease, Installation: namespace, Identity: "a",
		Duration: 3 * time.Second, Every: 100 * time.Millisecond,
	})
	must(t, err)
	one, err := replica.New(replica.Options{
		Config: cluster.Config(), Namespace: namespace, Name: "a", Count: count, Runner: noApps{}, LeaveTimeout: patience, Mode: sharded,
		Timing: shards.Timing{Duration: 20 * time.Second, Deadline: 15 * time.Second, Retry: 300 * time.Millisecond},
	})
	must(t, err)
	ended := make(chan error, 2)
	go func() { sharded.Run(ctx); ended <- nil }()
	go func() { ended <- one.Run(ctx) }()
	eventually(t, func() error {
		list, err := replica.ReadSurvey(ctx, clientFor(t, cluster), namespace)
		if err != nil || len(list.Holders) != count || len(list.Members) == 0 {
			return fmt.Errorf("the replica has not joined: %+v (%w)", list, err)
		}
		return check()
	})
	cancel()
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Errorf("the replica ends with %v", err)
		}
	}
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
