// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Defect 1 of the libraries. In multicluster-runtime the controller waits for the caches of a cluster
// while it holds its lock, without a limit: behind a cluster that accepts requests and never answers
// them, no other one is ever engaged. Its kubeconfig provider has a single worker besides.
func TestMulticlusterRuntime_SilentClusterKeepsOthersFromEngaging(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(o *app.Options) { o.Concurrency = 1 })
	h.start()
	alone := unique("alone")
	h.register(alone, clusterOf(t, one).Kubeconfig(), nil)
	unhindered := h.untilReady(alone)

	for range 2 {
		for _, silence := range []fault.Fault{fault.Blackhole(), fault.NeverRead(), fault.LoseAnswers()} {
			p, data := proxyTo(t, one)
			set(t, p, silence)
			h.register(unique("silent"), data, nil)
		}
		// It looks well to those who only ask whether it is, and never sends the objects.
		for _, script := range []string{"watch never begins", "dripping list"} {
			h.register(unique("silent"), lyingBefore(t, one, script), nil)
		}
	}
	eventually(t, func() error { // the hub is at work on all of them
		if known := len(h.registry.List()); known != 11 {
			return fmt.Errorf("the registry knows %d remotes", known)
		}
		return nil
	})
	for range 3 {
		healthy := unique("healthy")
		h.register(healthy, clusterOf(t, two).Kubeconfig(), nil)
		took := h.untilReady(healthy)
		t.Logf("Ready after %s; alone, after %s", took, unhindered)
		if took > unhindered+soon {
			t.Errorf("a remote was Ready after %s beside silent ones, and after %s alone", took, unhindered)
		}
		expectWorks(t, two, registry.ClusterName(healthy))
		h.remove(healthy)
		h.expectGone(healthy)
	}
	expectWorks(t, one, registry.ClusterName(alone))
	h.expectRuns()
}

// untilReady waits until a Cluster is Ready, and says how long that took.
func (h *hub) untilReady(name string) time.Duration {
	h.t.Helper()
	began := time.Now()
	h.expectReady(name)
	return time.Since(began)
}

// Defect 2 of the libraries. In multicluster-runtime a cluster that was there before the start and whose
// caches do not fill makes the manager return at CacheSyncTimeout: the process ends, for all clusters.
func TestMulticlusterRuntime_UnsyncedClusterEndsTheProcess(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(o *app.Options) { o.Registry.Limits.SyncTimeout = 3 * time.Second })
	unsynced, healthy := unique("unsynced"), unique("healthy")
	h.register(unsynced, lyingBefore(t, one, "watch never begins"), nil)
	h.register(healthy, clusterOf(t, two).Kubeconfig(), nil)
	h.start()
	h.expectReady(healthy)
	aside := newBystander(t, h.registry, two, registry.ClusterName(healthy))
	h.expect(unsynced, hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonCacheSyncTimedOut)
	eventually(t, func() error { // it is tried again, and times out again
		if info, _ := h.registry.Status(registry.ClusterName(unsynced)); info.Restarts < 2 {
			return fmt.Errorf("%d restarts", info.Restarts)
		}
		return nil
	})
	h.expectRuns()
	aside.expectUnaware()
}

// Defect 3 of the libraries. In multicluster-runtime's sharded coordinator a cluster can be started within
// the context of another one's engagement: when that one is removed the first ends with it, still counts
// as started, and is never started again.
func TestMulticlusterRuntime_RemovingOneClusterEndsAnother(t *testing.T) {
	t.Parallel()
	var s scripts
	r := newRegistry(t, s.toRegistry)
	first, fromLease, fromApp := registry.ClusterName(unique("first")), registry.ClusterName(unique("lease")), registry.ClusterName(unique("app"))
	spawned := make(chan error, 1)
	s.set(t, first, script{run: func(ctx context.Context) error {
		spawned <- r.Spawn(ctx, fromApp, admin(t, two))
		<-ctx.Done()
		return nil
	}})
	spawn(t, r, first, admin(t, one))
	must(t, r.WithClient(t.Context(), first, func(ctx context.Context, _ client.Client) error {
		return r.Spawn(ctx, fromLease, admin(t, two))
	}))
	must(t, <-spawned)
	aside := []*bystander{newBystander(t, r, two, fromLease), newBystander(t, r, two, fromApp)}
	must(t, r.Stop(t.Context(), first))
	for _, b := range aside {
		b.expectUnaware()
	}
}

// Defect 4 of the libraries. In multicluster-runtime the names of two clusters that differ in dots, slashes
// or case share a Lease, so that what is said of one is taken for the other. Here such names differ, or are refused.
func TestMulticlusterRuntime_LikeNamesAreTakenForOneAnother(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	alike := unique("like-name")
	stays := registry.ClusterName(alike)
	spawn(t, r, stays, admin(t, one))
	aside := newBystander(t, r, one, stays)
	for _, separator := range []string{"", "--"} {
		other := registry.ClusterName(strings.ReplaceAll(alike, "-", separator))
		spawn(t, r, other, admin(t, two))
		if a, b := epochOf(t, r, stays), epochOf(t, r, other); a == b {
			t.Errorf("%s and %s share epoch %d", stays, other, a)
		}
		must(t, r.Stop(t.Context(), other))
	}
	for _, separator := range []string{".", "_", "/"} {
		other := registry.ClusterName(strings.ReplaceAll(alike, "-", separator))
		var invalid *state.InvalidNameError
		if err := r.Ensure(other, admin(t, two)); !errors.As(err, &invalid) {
			t.Errorf("Ensure of %s: %v, want an InvalidNameError", other, err)
		}
	}
	aside.expectUnaware()
}

// Defect 5 of the libraries. In multicluster-runtime's kubeconfig provider a cluster lives in the context
// of the reconcile that engaged it: with a timeout for reconciles it ends when that returns.
func TestMulticlusterRuntime_ClusterEndsWithTheCallThatRegisteredIt(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, func(o *registry.Options) { o.Limits.ReconcileTimeout = 100 * time.Millisecond })
	name := registry.ClusterName(unique("outlives"))
	ctx, cancel := context.WithCancel(t.Context())
	must(t, r.Spawn(ctx, name, admin(t, one)))
	cancel()
	aside := newBystander(t, r, one, name)
	consistently(t, 500*time.Millisecond, func() error {
		if info, _ := r.Status(name); info.State != state.StateReady {
			return fmt.Errorf("it is %s: %s", info.State, info.Message)
		}
		return nil
	})
	aside.expectUnaware()
}

// Defect 6 of the libraries. multicluster-runtime's cluster-inventory provider compares configurations
// that are never equal, because there are functions in them: every event about a cluster, whatever it is
// about, tears the cluster down and engages it again.
func TestMulticlusterRuntime_EveryEventEngagesAnew(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	name := unique("touched")
	remote := registry.ClusterName(name)
	h.register(name, clusterOf(t, one).Kubeconfig(), nil)
	h.expectReady(name)
	expectWorks(t, one, remote)
	aside := newBystander(t, h.registry, one, remote)
	before := lists(t, clusterOf(t, one), remote)

	reencoded := reencode(t, clusterOf(t, one).Kubeconfig())
	for i := range 20 {
		touch := fmt.Sprint(i)
		h.change(name, func(c *hubv1.Cluster) {
			metav1.SetMetaDataLabel(&c.ObjectMeta, "regression/touch", touch)
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "regression/touch", touch)
		})
		// The same credentials in other bytes, and keys that are never read.
		h.putSecret(name, map[string][]byte{
			"kubeconfig": [][]byte{clusterOf(t, one).Kubeconfig(), reencoded}[i%2], "touch": []byte(touch),
		})
	}
	eventually(t, func() error {
		if info, _ := h.registry.Status(remote); info.Labels["regression/touch"] != "19" {
			return fmt.Errorf("labels: %v", info.Labels)
		}
		return nil
	})
	aside.expectUnaware()
	if after := lists(t, clusterOf(t, one), remote); after != before {
		t.Errorf("everything was listed %d times more", after-before)
	}
}
