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
	startReplica(t, cluster, replica.Options{Namespace: namespace, Name: name, Count: shardCount, Version: "v1.2.3"})
}

// await waits for a list that a check accepts, which is the empty text.
func await(t *testing.T, hub *runners.Hub, check func(*runners.List) string) *runners.List {
	t.Helper()
	var list *runners.List
	eventually(t, func() (err error) {
		if list, err = hub.List(t.Context()); err != nil {
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
	return list
}

// inStates returns a check of the states of replicas, sorted by name.
func inStates(states ...runners.State) func(*runners.List) string {
	return func(l *runners.List) string {
		var got []runners.State
		for _, r := range l.Runners {
			got = append(got, r.State)
			if r.Version != "v1.2.3" {
				return "the version of " + r.Name + " is " + r.Version
			}
		}
		if !slices.Equal(got, states) || len(l.Unheld) > 0 {
			return "the states are not as they should be"
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
	await(t, hub, inStates(runners.Live))

	// A replica that is alone keeps its shards.
	before, err := hub.SetDrained(t.Context(), "a", true)
	must(t, err)
	if before.Name != "a" || before.Drained || len(before.Shards) != shardCount {
		t.Errorf("before the drain: got %+v", before)
	}
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
		return inStates(runners.Live)(l)
	})

	// Another replica gets them.
	start(t, cluster, hub.Namespace, "b")
	wait.Timeout = patience
	must(t, hub.AwaitDrained(t.Context(), wait))
	list := await(t, hub, inStates(runners.Drained, runners.Live))
	if a, b := list.Runners[0], list.Runners[1]; len(a.Shards) != 0 || len(b.Shards) != shardCount || !a.Assigns || b.Assigns {
		t.Errorf("after the drain: got %+v", list)
	}

	// Without the wish, they share them.
	if before, err = hub.SetDrained(t.Context(), "a", false); err != nil || !before.Drained {
		t.Errorf("before the end of the drain: got %+v and %v", before, err)
	}
	await(t, hub, func(l *runners.List) string {
		if len(l.Runners[0].Shards) != shardCount/2 {
			return "a does not have the mean"
		}
		return inStates(runners.Live, runners.Live)(l)
	})
}

// The Leases of replicas that are left from Sharded mode are not listed in a hub that is in leader mode again.
func testLeaderMode(t *testing.T) {
	t.Parallel()
	cluster, hub := newHub(t)
	hub.ModeLease = "mode"
	start(t, cluster, hub.Namespace, "a")
	await(t, hub, inStates(runners.Live)) // Without the Lease, the mode is not known.
	holder := hub.Namespace + "/clusterfx-sharding"
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: hub.Namespace, Name: "mode"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
	must(t, hub.Cluster.Create(t.Context(), lease))
	await(t, hub, inStates(runners.Live))
	other := "clusterfx-hub-7d9f_1"
	lease.Spec.HolderIdentity = &other
	must(t, hub.Cluster.Update(t.Context(), lease))
	if list, err := hub.List(t.Context()); list != nil || !errors.Is(err, replica.ErrNotSharded) {
		t.Errorf("in leader mode: got %+v and %v, want ErrNotSharded", list, err)
	}
}
