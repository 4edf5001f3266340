// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/runners"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// shardCount is the number of shards of the replicas.
const shardCount = 8

// newHub returns a cluster, and a hub in a new namespace of it.
func newHub(t *testing.T) (*fleet.Cluster, *runners.Hub) {
	t.Helper()
	cluster := fleettest.Cluster(t, "hub")
	c, err := access.New("the hub", cluster.Config())
	must(t, err)
	namespace := fleettest.Namespace(t, c, "runners-")
	return cluster, &runners.Hub{Cluster: c, Namespace: namespace}
}

func start(t *testing.T, cluster *fleet.Cluster, namespace, name string) {
	t.Helper()
	startReplica(t, cluster, replica.Options{Namespace: namespace, Name: name, Count: shardCount})
}

// await waits for a list that a check accepts, which is the empty text.
func await(t *testing.T, hub *runners.Hub, check func(*runners.List) string) {
	t.Helper()
	eventually(t, func() error {
		list, err := hub.List(t.Context())
		if err != nil {
			return err
		}
		if list == nil {
			return errors.New("no list")
		}
		if problem := check(list); problem != "" {
			return fmt.Errorf("%s: %+v", problem, list)
		}
		return nil
	})
}

// with returns a check of the replicas.
func with(want ...runners.Runner) func(*runners.List) string {
	return func(l *runners.List) string {
		if !slices.Equal(l.Runners, want) || l.Unheld > 0 {
			return "the replicas are not as they should be"
		}
		return ""
	}
}

func TestHub(t *testing.T) {
	t.Parallel()
	fleettest.InstallCRDs(t, fleettest.Cluster(t, "hub").Config())
	t.Run("DrainsReplicasThatRun", testDrain)
	t.Run("LeaderMode", testLeaderMode)
}

// Replicas that run hand over the shards of one that is drained, and the list follows.
func testDrain(t *testing.T) {
	t.Parallel()
	cluster, hub := newHub(t)
	testkit.ErrorIs(t, testkit.Err(hub.List(t.Context())), replica.ErrNotSharded, "before the first replica")
	start(t, cluster, hub.Namespace, "a")
	all := runners.Runner{Name: "a", Live: true, Shards: shardCount}
	await(t, hub, with(all))

	// A replica that is alone keeps its shards.
	before, err := hub.SetDrained(t.Context(), "a", true)
	must(t, err)
	testkit.Equal(t, before, all, "before the drain")
	var said []string
	wait := runners.Wait{Name: "a", Timeout: time.Second, Progress: func(text string) { said = append(said, text) }}
	err = hub.AwaitDrained(t.Context(), wait)
	if !errors.Is(err, runners.ErrNotDrained) || !strings.Contains(err.Error(), "all live replicas are drained") || len(said) == 0 {
		t.Errorf("the drain of a replica that is alone: got %v and %q", err, said)
	}
	await(t, hub, func(l *runners.List) string {
		if !l.Ignored {
			return "the list does not say that the drain is ignored"
		}
		all.Drained = true
		return with(all)(l)
	})

	// Another replica gets them.
	start(t, cluster, hub.Namespace, "b")
	wait.Timeout = patience
	must(t, hub.AwaitDrained(t.Context(), wait))
	await(t, hub, with(runners.Runner{Name: "a", Drained: true}, runners.Runner{Name: "b", Live: true, Shards: shardCount}))

	// Without the wish, they share them.
	if before, err = hub.SetDrained(t.Context(), "a", false); err != nil || !before.Drained {
		t.Errorf("before the end of the drain: got %+v and %v", before, err)
	}
	await(t, hub, with(runners.Runner{Name: "a", Live: true, Shards: shardCount / 2}, runners.Runner{Name: "b", Live: true, Shards: shardCount / 2}))
}

// The Leases of replicas that are left from Sharded mode are not listed in a hub that is in leader mode again.
func testLeaderMode(t *testing.T) {
	t.Parallel()
	cluster, hub := newHub(t)
	hub.ModeLease = "mode"
	all := runners.Runner{Name: "a", Live: true, Shards: shardCount}
	start(t, cluster, hub.Namespace, "a")
	await(t, hub, with(all)) // Without the Lease, the mode is not known.
	holder := hub.Namespace + "/clusterfx-sharding"
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: hub.Namespace, Name: "mode"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
	must(t, hub.Cluster.Create(t.Context(), lease))
	await(t, hub, with(all))
	other := "clusterfx-hub-7d9f_1"
	lease.Spec.HolderIdentity = &other
	must(t, hub.Cluster.Update(t.Context(), lease))
	if list, err := hub.List(t.Context()); list != nil || !errors.Is(err, replica.ErrNotSharded) {
		t.Errorf("in leader mode: got %+v and %v, want ErrNotSharded", list, err)
	}
}
