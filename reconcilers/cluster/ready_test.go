// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// idle is a module with a runnable that does nothing.
func idle(name string) registry.Module {
	return registry.NewModule(name, registry.ModuleOptions{Remote: fx.Invoke(func(mgr ctrl.Manager) error {
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}))
	})})
}

func TestCluster_BecomesReady(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(o *hubOptions) { o.modules = []registry.Module{idle("first"), idle("second")} })
	remote := fleettest.Cluster(t, "one")
	name := h.name("a")

	began := time.Now()
	h.putKubeconfig(name, remote.Kubeconfig())
	h.newCluster(name, nil)
	c := h.expectReady(name)
	t.Logf("Ready after %s", time.Since(began))

	id := idOf(t, remote)
	h.eventually(func() error { // The hub records the identity in another step.
		c = h.get(name)
		if c.Annotations[hubv1.AnnotationID] != id {
			return fmt.Errorf("got recorded id %q, want %q", c.Annotations[hubv1.AnnotationID], id)
		}
		return nil
	})
	status := &c.Status
	if status.Version != fleet.KubernetesVersion || status.Server != remote.Server() || status.ID != id {
		t.Errorf("got version %q, server %q and id %q, want the values of the remote", status.Version, status.Server, status.ID)
	}
	if status.Credentials.Type != hubv1.CredentialClientCertificate || status.Credentials.Fingerprint == "" ||
		status.Credentials.ExpirationTime.IsZero() {
		t.Errorf("got credentials %+v, want a client certificate with fingerprint and expiration", status.Credentials)
	}
	if status.ModuleSummary != "2/2" || len(status.Modules) != 2 || status.Modules[0].State != hubv1.ModuleRunning {
		t.Errorf("got modules %q, %+v, want 2/2 that run", status.ModuleSummary, status.Modules)
	}
	ready := meta.FindStatusCondition(status.Conditions, hubv1.ConditionReady)
	if ready.Message != "2 modules are running" {
		t.Errorf("got message %q, want the number of modules", ready.Message)
	}
	if len(c.Finalizers) != 1 || c.Finalizers[0] != hubv1.FinalizerCluster {
		t.Errorf("got finalizers %v, want only the finalizer of the hub", c.Finalizers)
	}
	h.expectEvents(name, "Ready")
}

// Conditions and fields of the status that other controllers write stay.
func TestCluster_StatusOfOthersStays(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	name := h.name("a")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	theirs := hubac.Cluster(name).WithStatus(hubac.ClusterStatus().
		WithInventory(hubac.InventoryStatus().WithNodes(7)).
		WithConditions(metav1ac.Condition().WithType(foreignCondition).WithStatus(metav1.ConditionTrue).
			WithReason("Done").WithMessage("yesterday").WithLastTransitionTime(metav1.Now())))
	h.must(h.Status().Apply(t.Context(), theirs, client.FieldOwner("somebody")))
	h.change(name, func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused })
	c := h.expect(name, hubv1.ConditionReady, metav1.ConditionUnknown, hubv1.ReasonPaused)
	if c.Status.Inventory.Nodes == nil || *c.Status.Inventory.Nodes != 7 {
		t.Errorf("got inventory %+v, want 7 nodes", c.Status.Inventory)
	}
	if !meta.IsStatusConditionTrue(c.Status.Conditions, foreignCondition) {
		t.Errorf("the condition of another controller is not True: %s", summary(c))
	}
}

// watch calls f with every state of a Cluster until stop is called.
func (h *hub) watch(name string, f func(*hubv1.Cluster)) (stop func()) {
	h.t.Helper()
	return fleettest.Watch(h.t, fleettest.Watched{
		Client: h, List: &hubv1.ClusterList{}, Options: []client.ListOption{client.MatchingFields{"metadata.name": name}},
	}, func(o client.Object) {
		if c, ok := o.(*hubv1.Cluster); ok {
			f(c)
		}
	})
}

// idOf returns the identity of a cluster.
func idOf(t testing.TB, c *fleet.Cluster) string {
	t.Helper()
	var ns corev1.Namespace
	if err := clientFor(t, c).Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, &ns); err != nil {
		t.Fatal(err)
	}
	return string(ns.UID)
}

// expectEvents waits until exactly these events are recorded for a Cluster, each once.
func (h *hub) expectEvents(name string, reasons ...string) {
	h.t.Helper()
	want := map[string]int{}
	for _, reason := range reasons {
		want[reason]++
	}
	h.eventually(func() error {
		got := h.events(name)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("events of %s: got %v, want %v", name, got, want)
		}
		return nil
	})
}

// events returns the number of events for an object, by reason, without Registered, which depends on how soon the Cluster is Ready.
func (h *hub) events(name string) map[string]int {
	h.t.Helper()
	var all eventsv1.EventList
	h.must(h.List(h.t.Context(), &all))
	got := map[string]int{}
	for _, e := range all.Items {
		if e.Regarding.Name != name || e.Reason == "Registered" {
			continue
		}
		got[e.Reason]++
		if e.Series != nil {
			got[e.Reason] += int(e.Series.Count) - 1
		}
	}
	return got
}
