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

// Defect 1 of the libraries. In multicluster-runtime the controller waits for the caches of a cluster while it holds
// its lock, without a limit: behind a cluster that accepts requests and never responds, no other cluster is engaged.
// Its kubeconfig provider also has a single worker.
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
		// The server responds to probes, and never sends the objects.
		for _, script := range []string{"watch never begins", "dripping list"} {
			h.register(unique("silent"), lyingBefore(t, one, script), nil)
		}
	}
	eventually(t, func() error { // the hub works on all of them
		if known := len(h.registry.List()); known != 11 {
			return fmt.Errorf("the registry knows %d remotes, want 11", known)
		}
		return nil
	})
	for range 3 {
		healthy := unique("healthy")
		h.register(healthy, clusterOf(t, two).Kubeconfig(), nil)
		took := h.untilReady(healthy)
		t.Logf("Ready after %s; alone, after %s", took, unhindered)
		if took > unhindered+soon {
			t.Errorf("a remote is Ready after %s beside silent remotes, and after %s alone", took, unhindered)
		}
		expectWorks(t, two, registry.ClusterName(healthy))
		h.remove(healthy)
		h.expectGone(healthy)
	}
	expectWorks(t, one, registry.ClusterName(alone))
	h.expectRuns()
}

// untilReady waits until a Cluster is Ready, and returns the time that this took.
func (h *hub) untilReady(name string) time.Duration {
	h.t.Helper()
	began := time.Now()
	h.expectReady(name)
	return time.Since(began)
}

// Defect 2 of the libraries. In multicluster-runtime a cluster that exists before the start and whose caches do not
// fill makes the manager return at CacheSyncTimeout: the process ends, for all clusters.
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
	eventually(t, func() error { // the app is restarted, and times out again
		if info, _ := h.registry.Status(registry.ClusterName(unsynced)); info.Restarts < 2 {
			return fmt.Errorf("got %d restarts, want 2", info.Restarts)
		}
		return nil
	})
	h.expectRuns()
	aside.expectUnaware()
}

// Defect 3 of the libraries. In multicluster-runtime's sharded coordinator a cluster can be started within the context
// of another cluster's engagement: when that other cluster is removed the first cluster ends with it, still counts as
// started, and is never started again.
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

// Defect 4 of the libraries. In multicluster-runtime the names of two clusters that differ in dots, slashes or case
// share a Lease, so that the state of one cluster is taken for the state of the other. Here such names differ, or are
// refused.
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
			t.Errorf("%s and %s share epoch %d, want an epoch for each", stays, other, a)
		}
		must(t, r.Stop(t.Context(), other))
	}
	invalid := []string{strings.ToUpper(alike), strings.ToUpper(alike[:1]) + alike[1:]}
	for _, separator := range []string{".", "_", "/"} {
		invalid = append(invalid, strings.ReplaceAll(alike, "-", separator))
	}
	for _, name := range invalid {
		var refused *state.InvalidNameError
		if err := r.Ensure(registry.ClusterName(name), admin(t, two)); !errors.As(err, &refused) {
			t.Errorf("Ensure of %s: %v, want an InvalidNameError", name, err)
		}
	}
	aside.expectUnaware()
}

// Defect 5 of the libraries. In multicluster-runtime's kubeconfig provider a cluster lives in the context of the
// reconcile that engaged it: with a timeout for reconciles it ends when that reconcile returns.
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
			return fmt.Errorf("the remote is %s, want Ready: %s", info.State, info.Message)
		}
		return nil
	})
	aside.expectUnaware()
}

// Defect 6 of the libraries. multicluster-runtime's cluster-inventory provider compares configurations that are never
// equal, because they contain functions: every event about a cluster, of any kind, tears the cluster down and engages
// it again.
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
		// The same credentials in other bytes, and a key that the hub does not read.
		h.putSecret(name, map[string][]byte{
			"kubeconfig": [][]byte{clusterOf(t, one).Kubeconfig(), reencoded}[i%2], "touch": []byte(touch),
		})
	}
	eventually(t, func() error {
		if info, _ := h.registry.Status(remote); info.Labels["regression/touch"] != "19" {
			return fmt.Errorf("got labels %v, want the last change", info.Labels)
		}
		return nil
	})
	aside.expectUnaware()
	if after := lists(t, clusterOf(t, one), remote); after != before {
		t.Errorf("got %d more lists, want 0", after-before)
	}
}
