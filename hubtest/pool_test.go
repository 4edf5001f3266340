// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// The tests in this file run before the parallel tests, so that a test knows which API server the next test receives.

// An API server is reused after a test, without the objects that the test left in it.
// Kinds of CRDs exist in the hub and in the remote, and the hub learns of them from its module.
func TestPool_Cleans(t *testing.T) {
	var before string
	var direct client.Client
	clean := t.Run("first", func(t *testing.T) {
		hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo(), polish()),
			hubtest.HubCRDs(widgetCRDs), hubtest.RemoteCRDs(widgetCRDs), hubtest.Scheme(addWidgets))
		edge := hub.Remote("edge")
		before, direct = edge.Config().Host, edge.Client()
		litter(edge)
		held := newWidget("held")
		held.Finalizers = []string{"example.com/never"}
		edge.Create(held)
		edge.WaitFor(held, func() error { return equal(held.Labels["polished"], "yes") })
		hub.Create(newWidget("on-the-hub"))
		expectEcho(t, hub, edge, "hello")
	})
	if err := direct.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err == nil {
		t.Error("request of a client succeeds after the end of its test")
	}
	clean = clean && t.Run("second", func(t *testing.T) {
		hub := hubtest.New(t, hubtest.Remotes("edge"))
		edge := hub.Remote("edge")
		if edge.Config().Host != before {
			t.Fatal("API server is not reused")
		}
		for kind, left := range leftIn(t, edge.Client()) {
			t.Errorf("reused server of the remote has leftover %s: %v", kind, left)
		}
		for kind, left := range leftIn(t, hub.Client()) {
			t.Errorf("reused server of the hub has leftover %s: %v", kind, left)
		}
		litter(edge) // Leftovers of a test do not prevent the next test from creating the same objects.
	})
	if !clean {
		t.Error("one of the subtests failed")
	}
}

// litter leaves objects behind that are hard to delete.
func litter(edge *hubtest.Remote) {
	held := metav1.ObjectMeta{Namespace: "litter", Name: "held", Finalizers: []string{"example.com/never"}}
	pod := &corev1.Pod{ObjectMeta: held, Spec: corev1.PodSpec{
		NodeName: "nowhere", Containers: []corev1.Container{{Name: "main", Image: "example.com/nothing"}},
	}}
	edge.Create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "litter"}},
		&corev1.ConfigMap{ObjectMeta: held}, &corev1.Secret{ObjectMeta: held}, pod,
		&corev1.Service{ObjectMeta: held, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&corev1.PersistentVolumeClaim{ObjectMeta: held, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "litter"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "litter"}},
		&corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "litter"},
			InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "litter"},
		},
	)
}

// leftIn returns the objects of litter and of a hub, by kind.
func leftIn(t *testing.T, c client.Client) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, kind := range []string{
		"Namespace", "ConfigMap", "Secret", "Pod", "Service", "PersistentVolumeClaim", "Node", "Event",
		"ClusterRole", "CustomResourceDefinition",
	} {
		var list unstructured.UnstructuredList
		gvk := schema.GroupVersionKind{Version: "v1", Kind: kind + "List"}
		switch kind {
		case "ClusterRole":
			gvk.Group = "rbac.authorization.k8s.io"
		case "CustomResourceDefinition":
			gvk.Group = "apiextensions.k8s.io"
		}
		list.SetGroupVersionKind(gvk)
		testkit.Must(t, c.List(t.Context(), &list))
		for i := range list.Items {
			one := &list.Items[i]
			if name := one.GetNamespace() + "/" + one.GetName(); isLitter(one) {
				found[kind] = append(found[kind], name)
			}
		}
	}
	return found
}

// isLitter reports whether litter or a test with echo created an object.
func isLitter(o *unstructured.Unstructured) bool {
	switch o.GetName() {
	case "litter", "held", "shout", "echo-edge", "widgets.hubtest.example.com":
		return true
	}
	return false
}

// A server with irreversible damage from a test is not reused.
func TestPool_Retires(t *testing.T) {
	fleettest.Slow(t, "nothing: a server that is not used again costs the start of another")
	for name, damage := range map[string]func(context.Context, *hubtest.Remote) error{
		"something deleted": func(ctx context.Context, r *hubtest.Remote) error {
			return r.Client().Delete(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}})
		},
		"something changed": func(ctx context.Context, r *hubtest.Remote) error {
			var ns corev1.Namespace
			if err := r.Client().Get(ctx, client.ObjectKey{Name: "default"}, &ns); err != nil {
				return err
			}
			ns.Labels["changed"] = "yes"
			return r.Client().Update(ctx, &ns)
		},
		"the server killed": func(_ context.Context, r *hubtest.Remote) error {
			r.Kill()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before string
			t.Run("first", func(t *testing.T) {
				edge := hubtest.New(t).NewRemote("edge")
				before = edge.Config().Host
				testkit.Must(t, damage(t.Context(), edge))
			})
			if edge := hubtest.New(t).NewRemote("edge"); edge.Config().Host == before {
				t.Error("damaged server is reused")
			}
		})
	}
}

// BenchmarkNew measures the cost of a test whose API servers run already: New, the end of the hub, the search for
// leaks, and the cleaning.
func BenchmarkNew(b *testing.B) {
	start := func(tb *failing) { hubtest.New(tb, hubtest.Remotes("a", "b")) }
	began := time.Now()
	fails(b, start)
	first := time.Since(began)
	for b.Loop() {
		if said := fails(b, start); said != "" {
			b.Fatal(said)
		}
	}
	b.ReportMetric(first.Seconds(), "s/first")
}
