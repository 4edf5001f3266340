// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// identify records the identity of a Cluster, as the hub that runs it does, or removes the record.
func (h *hub) identify(name, id string) {
	h.t.Helper()
	before := h.get(name)
	after := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, hubv1.AnnotationID, id)
	if err := h.Patch(h.t.Context(), after, client.MergeFrom(before)); err != nil {
		h.t.Fatal(err)
	}
}

// A Cluster is a duplicate of an older one that another hub runs, as soon as that hub has recorded which cluster it is, and until
// the older one is gone or is another cluster. It makes no difference which of them was contacted first.
func TestShare_Rivals(t *testing.T) {
	t.Parallel()
	share := newRoles()
	h := newHub(t, func(o *hubOptions) { o.share, o.registry.AllowDuplicates = share, false })
	older, ours := h.name("older"), h.name("ours")
	h.newCluster(older, nil)
	h.putKubeconfig(ours, fleettest.Cluster(t, "one").Kubeconfig())
	share.set(ours, cluster.RoleRunner)
	h.newCluster(ours, nil)
	h.expectReady(ours)
	id := h.get(ours).Annotations[hubv1.AnnotationID]

	h.identify(older, id)
	h.expectReason(ours, hubv1.ReasonDuplicateRegistration)
	if info, _ := h.registry.Status(registry.ClusterName(ours)); info.State != state.StateFailed {
		t.Errorf("the duplicate is %s, want %s", info.State, state.StateFailed)
	}
	h.identify(older, "another")
	h.expectReady(ours)
	h.identify(older, id)
	h.expectReason(ours, hubv1.ReasonDuplicateRegistration)
	h.remove(older)
	h.expectReady(ours)
}

// An older Cluster is no duplicate of a younger one that another hub runs.
func TestShare_YoungerRival(t *testing.T) {
	t.Parallel()
	share := newRoles()
	h := newHub(t, func(o *hubOptions) { o.share, o.registry.AllowDuplicates = share, false })
	ours, younger := h.name("a"), h.name("b")
	h.putKubeconfig(ours, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(ours, nil)
	h.newCluster(younger, nil)
	h.identify(younger, idOf(t, fleettest.Cluster(t, "one")))
	share.set(ours, cluster.RoleRunner)
	h.expectReady(ours)
}

// A hub that shares its Clusters with others has a remote identified before it starts an app there, also if the Cluster has its
// finalizer already.
func TestShare_IdentifiesFirst(t *testing.T) {
	t.Parallel()
	share := newRoles()
	h := newIdleHub(t, func(o *hubOptions) { o.share, o.registry.AllowDuplicates = share, false })
	name := h.name("a")
	share.set(name, cluster.RoleRunner)
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, func(c *hubv1.Cluster) { c.Finalizers = []string{hubv1.FinalizerCluster} })
	ctx := context.WithoutCancel(t.Context()) // The hub ends after the test.
	w := &watched{ensures: func(name string, desired state.Desired) {
		var c hubv1.Cluster
		if err := h.Get(ctx, client.ObjectKey{Name: name}, &c); err != nil {
			t.Errorf("read the Cluster: %v", err)
		}
		if !desired.IdentifyOnly && c.Annotations[hubv1.AnnotationID] == "" {
			t.Errorf("an app of %s may start before its identity is recorded", name)
		}
	}}
	w.start(t, h)
	h.expectReady(name)
}
