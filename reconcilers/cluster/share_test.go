// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// roles are a Share that a test sets.
type roles struct {
	mu       sync.Mutex
	role     map[string]cluster.Role // of the Clusters that the hub does not leave to others
	prepared map[types.UID]bool
	exported map[types.UID]bool
	epoch    int32
	queue    workqueue.TypedRateLimitingInterface[ctrl.Request]
}

func newRoles() *roles {
	return &roles{role: map[string]cluster.Role{}, prepared: map[types.UID]bool{}, exported: map[types.UID]bool{}}
}

func (r *roles) RoleOf(name registry.ClusterName, _ types.UID) (cluster.Role, hubv1.RunnerStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	role, known := r.role[string(name)]
	if !known {
		role = cluster.RoleNone
	}
	if role != cluster.RoleRunner {
		return role, hubv1.RunnerStatus{}
	}
	return role, hubv1.RunnerStatus{Name: "hub-0", Type: hubv1.RunnerHub, Version: "v1", Epoch: r.epoch}
}

func (r *roles) Prepared(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepared[uid] = true
}

func (r *roles) Forget(registry.ClusterName) {}

func (r *roles) Exported() func(types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	exported := maps.Clone(r.exported)
	return func(uid types.UID) bool { return exported[uid] }
}

func (r *roles) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.queue = queue
		return nil
	})
}

// set changes what the hub does with a Cluster.
func (r *roles) set(name string, to cluster.Role) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.role[name] = to; to == cluster.RoleRunner {
		r.epoch++
	}
	if r.queue == nil {
		return // The controller has not started, and reconciles all Clusters when it does.
	}
	r.queue.Add(ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
}

// takePrepared reports whether the Cluster was prepared since the last call.
func (r *roles) takePrepared(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer delete(r.prepared, uid)
	return r.prepared[uid]
}

// A hub writes nothing to the Clusters that another hub runs, also while it keeps their apps warm; it builds no app that the other
// has not started. It reports those that it runs, and leaves them as they are when another hub gets them.
func TestShare_Roles(t *testing.T) {
	t.Parallel()
	share := newRoles()
	h := newHub(t, func(o *hubOptions) {
		o.share = share
		o.modules = []registry.Module{idle("docile")}
	})
	ours, name := h.name("ours"), h.name("a")
	share.set(ours, cluster.RoleRunner)
	for _, one := range []string{name, ours} {
		h.putKubeconfig(one, fleettest.Cluster(t, "one").Kubeconfig())
		h.newCluster(one, nil)
	}
	h.expectReady(ours)
	expectPrepared := func() *hubv1.Cluster {
		t.Helper()
		c := h.get(name)
		share.set(name, cluster.RoleWarm)
		h.eventually(func() error {
			if !share.takePrepared(c.UID) {
				return errors.New("the hub does not say that it has prepared the Cluster")
			}
			return nil
		})
		return c
	}
	expectPrepared()
	h.expectState(name, "") // No runner has started it.
	share.set(name, cluster.RoleRunner)
	h.expectReady(name)
	share.set(name, cluster.RoleNone)
	h.expectState(name, "")
	untouched := expectPrepared()
	h.expectState(name, state.StateWarm)
	if now := h.get(name); now.ResourceVersion != untouched.ResourceVersion {
		t.Errorf("the hub has changed a Cluster that it keeps warm: %+v", now)
	}
	warm, _ := h.registry.Status(registry.ClusterName(name))
	share.set(name, cluster.RoleRunner)
	h.expectCluster(name, func(c *hubv1.Cluster) bool { return c.Status.Runner.Epoch == 3 })
	h.expectReady(name)
	running, _ := h.registry.Status(registry.ClusterName(name))
	if running.Epoch != warm.Epoch {
		t.Errorf("the app that works is of epoch %d, the warm one was of %d", running.Epoch, warm.Epoch)
	}
	reported := h.get(name)
	runner := reported.Status.Runner
	if runner.Name != "hub-0" || runner.Since.IsZero() || !controllerutil.ContainsFinalizer(reported, hubv1.FinalizerCluster) {
		t.Errorf("got the runner %+v and the finalizers %v", runner, reported.Finalizers)
	}
	share.set(name, cluster.RoleNone)
	h.expectState(name, "")
	if now := h.get(name); now.ResourceVersion != reported.ResourceVersion {
		t.Errorf("the hub has changed a Cluster that another hub runs: %+v", now)
	}
}

// A hub exports the metrics of its part of the Clusters, whatever it does with the others.
func TestShare_Metrics(t *testing.T) {
	t.Parallel()
	share := newRoles()
	h := newHub(t, func(o *hubOptions) { o.share = share })
	one, other := h.name("a"), h.name("b")
	for _, name := range []string{one, other} {
		share.set(name, cluster.RoleRunner)
		h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
		h.newCluster(name, nil)
		h.expectReady(name)
	}
	h.expectSeries(map[string]int{"clusterfx_conditions": 0, "clusterfx_cluster_condition": 0, "clusterfx_cluster_credentials_expiration_timestamp_seconds": 0})
	share.mu.Lock()
	share.exported[h.get(one).UID] = true
	share.mu.Unlock()
	h.expectSeries(map[string]int{"clusterfx_conditions": 5, "clusterfx_cluster_condition": 5, "clusterfx_cluster_credentials_expiration_timestamp_seconds": 1})
}

// A hub leaves the removal of a deleted Cluster to the hub that runs it.
func TestShare_Deletion(t *testing.T) {
	t.Parallel()
	share := newRoles()
	var cleaned counter
	h := newHub(t, func(o *hubOptions) {
		o.share = share
		o.modules = []registry.Module{hooked("cleaning", nil, nil, cleaned.count)}
	})
	name := h.name("a")
	share.set(name, cluster.RoleRunner)
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	share.set(name, cluster.RoleNone)
	h.expectState(name, "")
	h.remove(name)
	uid := h.get(name).UID
	share.set(name, cluster.RoleWarm) // Nothing to build.
	h.eventually(func() error {
		if !share.takePrepared(uid) {
			return errors.New("the hub waits for a Cluster that is deleted")
		}
		return nil
	})
	h.expectState(name, "")
	if n := cleaned.get(); n != 0 {
		t.Errorf("the cleanup step has run %d times in a hub that does not run the Cluster", n)
	}
	share.set(name, cluster.RoleRunner)
	h.expectGone(name)
	if n := cleaned.get(); n != 1 {
		t.Errorf("the cleanup step has run %d times, want 1", n)
	}
}

// counter counts calls.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) count(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return nil
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
