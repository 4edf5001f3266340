// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
)

// D10. The ancestor replaced and emptied the list of finalizers, including the finalizers of others, and built
// conditions from a map: their order changed each time, and each time it wrote the object.
func TestAncestor_FinalizersAndConditionsAreOverwritten(t *testing.T) {
	t.Parallel()
	const (
		foreign  = "example.com/theirs"
		theirs   = "example.com/Theirs"
		byOthers = "somebody-else"
	)
	h := sharedHub(t)
	p, data := proxyTo(t, one)
	name := unique("shared")
	h.register(name, data, func(c *hubv1.Cluster) {
		controllerutil.AddFinalizer(c, foreign)
		c.Spec.Probe.FailureThreshold = 20 // Probes that are slow on a busy machine change no condition.
	})
	h.expectReady(name)
	must(t, h.Status().Patch(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}},
		client.RawPatch(types.ApplyPatchType, fmt.Appendf(nil,
			`{"apiVersion":%q,"kind":"Cluster","metadata":{"name":%q},"status":{"conditions":[{"type":%q,"status":"True",`+
				`"reason":"Theirs","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`,
			hubv1.GroupVersion.String(), name, theirs)),
		client.FieldOwner(byOthers), client.ForceOwnership))
	ours := func(c *hubv1.Cluster) (conditions []metav1.Condition, order []string) {
		for _, one := range c.Status.Conditions {
			if one.Type != theirs && one.Type != hubv1.ConditionReconciling && one.Type != hubv1.ConditionStalled {
				conditions, order = append(conditions, one), append(order, one.Type)
			}
		}
		return conditions, order
	}
	conditions, order := ours(h.get(name))
	writes := h.statusWrites(name)
	for i := range 10 { // Each change triggers a reconcile, and no change of the status.
		h.change(name, func(c *hubv1.Cluster) { metav1.SetMetaDataLabel(&c.ObjectMeta, "regression/touch", fmt.Sprint(i)) })
	}
	eventually(t, func() error {
		if info, _ := h.registry.Status(registry.ClusterName(name)); info.Labels["regression/touch"] != "9" {
			return errors.New("the last change has not been seen")
		}
		return nil
	})
	if now, _ := ours(h.get(name)); !slices.Equal(now, conditions) {
		t.Errorf("got conditions %v, want %v", now, conditions)
	}
	if n := h.statusWrites(name) - writes; n != 0 {
		t.Errorf("got %d writes of an unchanged status, want 0", n)
	}
	confirmed := meta.FindStatusCondition(conditions, hubv1.ConditionCredentialsValid).LastTransitionTime
	set(t, p, fault.Refuse())
	h.expectUnreachable(name, hubv1.ReasonUnreachable)
	set(t, p, fault.Pass())
	c := h.expectReady(name)
	if _, now := ours(c); !slices.Equal(now, order) {
		t.Errorf("got conditions in the order %v, want %v", now, order)
	}
	if got := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionCredentialsValid).LastTransitionTime; !got.Equal(&confirmed) {
		t.Errorf("got transition time %s of a condition that stayed True, want %s", got, confirmed)
	}
	if !meta.IsStatusConditionTrue(c.Status.Conditions, theirs) {
		t.Errorf("the condition of another controller is not True:%s", summary(c))
	}
	h.remove(name)
	eventually(t, func() error {
		if left := h.get(name).Finalizers; !slices.Equal(left, []string{foreign}) {
			return fmt.Errorf("got finalizers %v, want only the finalizer of another controller", left)
		}
		return nil
	})
	h.change(name, func(c *hubv1.Cluster) { controllerutil.RemoveFinalizer(c, foreign) })
	h.expectGone(name)
}

// statusWrites returns the number of writes to the status of a Cluster, without the writes of apps.
func (h *hub) statusWrites(name string) int {
	h.t.Helper()
	events, err := h.cluster.AuditEvents(fleet.AuditEvent.Writes, func(e fleet.AuditEvent) bool {
		_, _, ofApp := agentOf(e)
		return e.Object.Name == name && e.Object.Subresource == "status" && !ofApp
	})
	must(h.t, err)
	return len(events)
}

// D11. A monitor of the ancestor deleted every remote object without a counterpart on the hub, including objects that
// users made, and deleted the hub's object when the remote object was missing for a moment.
func TestAncestor_MonitorDeletesWhatOthersMade(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	direct := clientFor(t, clusterOf(t, two))
	name := unique("monitored")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{hubv1.LabelCluster: name}}}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "clusterfx"},
	}}
	must(t, direct.Create(t.Context(), namespace))
	must(t, direct.Create(t.Context(), object))

	p, data := proxyTo(t, two)
	h.register(name, data, func(c *hubv1.Cluster) { c.Spec.Modules = []string{"inventory"} })
	uid := h.expectReady(name).UID
	set(t, p, fault.Refuse())
	h.expectUnreachable(name, hubv1.ReasonUnreachable)
	if c := h.get(name); c.UID != uid || !c.DeletionTimestamp.IsZero() || c.Status.Inventory.Nodes == nil {
		t.Errorf("an outage of the remote changed its Cluster: %+v", c)
	}
	set(t, p, fault.Pass())
	h.expectReady(name)
	h.remove(name)
	h.expectGone(name)

	for _, made := range []client.Object{namespace, object} {
		version := made.GetResourceVersion()
		if err := direct.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil || made.GetResourceVersion() != version {
			t.Errorf("an object of a user is at version %s, want %s: %v", made.GetResourceVersion(), version, err)
		}
	}
	writes, err := clusterOf(t, two).AuditEvents(ofRemote(registry.ClusterName(name)), fleet.AuditEvent.Writes)
	must(t, err)
	for _, e := range writes {
		t.Errorf("the hub sent a write to the remote: %s", e)
	}
}

// D13. In the ancestor the status of workloads on a remote did not reach the hub for a year.
func TestAncestor_StatusDoesNotComeBack(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	direct := clientFor(t, clusterOf(t, one))
	addNode := func() {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: unique("node")}}
		must(t, direct.Create(t.Context(), node))
		t.Cleanup(func() { must(t, direct.Delete(context.WithoutCancel(t.Context()), node)) })
	}
	addNode()
	addNode()
	name := unique("mirrored")
	h.register(name, clusterOf(t, one).Kubeconfig(), nil)
	c := h.expectReady(name)
	if c.Status.Version != fleet.KubernetesVersion || c.Status.ID != idOf(t, one) || c.Status.ModuleSummary == "" {
		t.Errorf("got status %+v, want the version and the ID of the remote, and a summary of modules", c.Status)
	}
	for _, want := range []int32{2, 3} {
		eventually(t, func() error { // The hub writes an inventory every ten seconds at most.
			got := h.get(name).Status.Inventory.Nodes
			if got == nil {
				return errors.New("the hub reports no number of nodes")
			}
			if *got != want {
				return fmt.Errorf("the hub counts %d nodes, want %d", *got, want)
			}
			return nil
		})
		if want == 2 {
			addNode()
		}
	}
}

// D14. The ancestor registered a cluster by installing a chart into it, which failed if the chart was installed
// already, could not be fetched, or was not allowed.
func TestAncestor_RegistrationInstallsSomething(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	name := unique("untouched")
	viewer, err := clusterOf(t, two).MintCertificate(t.Context(), fleet.User{Name: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces", "nodes"}, Verbs: []string{"get", "list", "watch"}},
		{NonResourceURLs: []string{"/readyz"}, Verbs: []string{"get"}},
	}})
	must(t, err)
	h.register(name, viewer.Kubeconfig(), func(c *hubv1.Cluster) { c.Spec.Modules = []string{"inventory"} })
	h.expectReady(name)
	h.remove(name)
	h.expectGone(name)
	asked, err := clusterOf(t, two).AuditEvents(func(e fleet.AuditEvent) bool { return e.User.Username == name })
	must(t, err)
	for _, e := range asked {
		if strings.HasPrefix(e.Object.Resource, "selfsubject") {
			continue // A review of permissions creates no object.
		}
		if e.Writes() || e.Response.Code == 403 {
			t.Errorf("the registration sent a request that it does not need: %s", e)
		}
	}
	if len(asked) == 0 {
		t.Error("the remote received no request")
	}
}
