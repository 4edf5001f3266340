// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func configMap(namespace, name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta(namespace, name, labels), Data: map[string]string{"k": name}}
}

// exists waits until an object exists on a server.
func exists(s interface {
	WaitFor(object client.Object, check func() error)
}, obj client.Object,
) {
	s.WaitFor(obj, func() error { return nil })
}

func copiesIn(t *testing.T, c client.Client, namespace string) map[string]int {
	t.Helper()
	var all corev1.ConfigMapList
	testkit.Must(t, c.List(t.Context(), &all, client.InNamespace(namespace), client.HasLabels{"sync.clusterfx.dev/managed-by"}))
	found := map[string]int{}
	for _, one := range all.Items {
		found[one.Annotations["sync.clusterfx.dev/object-name"]]++
	}
	return found
}

func hasEvent(t *testing.T, s *hubtest.Server, obj client.Object, reason string) {
	t.Helper()
	s.Eventually(func() error {
		var all eventsv1.EventList
		if err := s.Client().List(t.Context(), &all, client.InNamespace(obj.GetNamespace())); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Reason == reason && e.Regarding.Name == obj.GetName() {
				return nil
			}
		}
		return fmt.Errorf("none of %d events is %s", len(all.Items), reason)
	})
}

const fromRemote = `
reports:
  from: Remote
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {selector: {matchLabels: {reports: "true"}}}
  objects: {selector: {matchLabels: {report: "true"}}}
  to: {naming: Translated, namespace: inbox}
  onDeregister: Delete
`

// A rule brings objects of labeled namespaces of a remote into the hub, up to its limit, and removes its finalizers and copies
// when the Cluster is deleted.
func TestFromRemote_Namespaces(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, fromRemote, hubtest.ModuleConfig("sync", "config: {limits: {objects: 2}}"))
	a, yes := hub.Remote("a"), map[string]string{"report": "true"}
	hub.Create(namespace("inbox", nil))
	a.Create(namespace("shop", nil), namespace("clusterfx-system", map[string]string{"reports": "true"}))
	one, two, three := configMap("shop", "one", yes), configMap("shop", "two", yes), configMap("shop", "three", yes)
	a.Create(one, configMap("shop", "other", nil), configMap("clusterfx-system", "credentials", yes))
	shop := namespace("shop", nil)
	shop.Labels = map[string]string{"reports": "true"}
	patch := []byte(`{"metadata":{"labels":{"reports":"true"}}}`)
	testkit.Must(t, a.Client().Patch(t.Context(), shop, client.RawPatch("application/merge-patch+json", patch)))
	want := func(names ...string) {
		t.Helper()
		hub.Eventually(func() error {
			found := copiesIn(t, hub.Client(), "inbox")
			for _, name := range names {
				if found[name] != 1 {
					return fmt.Errorf("no copy of %s: %v", name, found)
				}
			}
			if len(found) != len(names) {
				return fmt.Errorf("got %v, want %v", found, names)
			}
			return nil
		})
	}
	want("one")
	a.Create(two)
	want("one", "two")
	a.Create(three)
	hasEvent(t, &a.Server, three, "OverLimit")
	want("one", "two")

	// An original that loses its label has no copy, and no finalizer: it can be deleted.
	testkit.Must(t, a.Client().Patch(t.Context(), two, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":null}}`))))
	hub.Eventually(func() error {
		if copiesIn(t, hub.Client(), "inbox")["two"] > 0 {
			return errors.New("there is a copy")
		}
		return nil
	})
	a.Delete(two)
	a.WaitGone(two)

	a.Deregister()
	want()
	for _, obj := range []*corev1.ConfigMap{one, three} {
		if err := a.Client().Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil || len(obj.Finalizers) > 0 {
			t.Errorf("%s has %v, %v", obj.Name, obj.Finalizers, err)
		}
	}
}

const fromHub = `
spread:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {selector: {matchLabels: {spread: "true"}}}
  to: {naming: Translated, namespace: default}
  onDeregister: Delete
orders:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {template: "tenant-{{cluster}}"}
  objects: {selector: {matchLabels: {order: "true"}}}
  to: {naming: Mirror, namespace: orders}
  adopt: IfEqual
  patches: [{path: /data/cluster, cel: cluster.name}]
seen:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {names: [watched]}
  objects: {selector: {matchLabels: {seen: "true"}}}
  to: {naming: Mirror, namespace: default}
  mode: Observe
back:
  from: Remote
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {names: [default]}
  to: {naming: Translated, namespace: back}
misfit:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {names: [misfit]}
  to: {naming: Mirror, namespace: default}
  patches: [{jsonPatch: [{op: test, path: /data/k, value: other}]}]
`

// Rules from the hub select namespaces by labels, adopt equal objects, patch copies, and only observe if they shall.
func TestFromHub_Fields(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, fromHub)
	a := hub.Remote("a")
	a.Create(namespace("orders", nil))
	labeled := map[string]string{"spread": "true"}
	hub.Create(namespace("tenant-a", nil), namespace("watched", nil), namespace("team", labeled), namespace("misfit", nil), namespace("back", labeled))

	spread := configMap("team", "s", nil)
	hub.Create(spread)
	a.Eventually(func() error {
		if found := copiesIn(t, a.Client(), "default"); found["s"] != 1 {
			return fmt.Errorf("got %v", found)
		}
		return nil
	})

	// Two rules copy nothing in a circle.
	a.Create(configMap("default", "mine", nil))
	hub.Eventually(func() error {
		if found := copiesIn(t, hub.Client(), "back"); found["mine"] != 1 || len(found) != 1 {
			return fmt.Errorf("got %v", found)
		}
		return nil
	})
	misfit := configMap("misfit", "m", nil)
	hub.Create(misfit)
	hasEvent(t, &hub.Server, misfit, rules.ReasonPatchFailed)

	equal, other := configMap("orders", "equal", nil), configMap("orders", "other", nil)
	equal.Data, other.Data = map[string]string{"k": "equal", "cluster": "a"}, map[string]string{"k": "theirs"}
	a.Create(equal, other)
	order := map[string]string{"order": "true"}
	hub.Create(configMap("tenant-a", "equal", order), configMap("tenant-a", "other", order))
	a.WaitFor(equal, func() error {
		if !strings.HasPrefix(equal.Labels["sync.clusterfx.dev/managed-by"], "hub-orders-") || equal.Data["cluster"] != "a" {
			return fmt.Errorf("got %v with %v", equal.Labels, equal.Data)
		}
		return nil
	})
	hasEvent(t, &hub.Server, configMap("tenant-a", "other", nil), "NameConflict")

	// An original that loses the label of the rule loses its copy and its finalizer.
	original := configMap("tenant-a", "equal", nil)
	testkit.Must(t, hub.Client().Patch(t.Context(), original, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":null}}`))))
	a.WaitGone(equal)
	hub.Delete(original)
	hub.WaitGone(original)

	seen := configMap("watched", "seen", map[string]string{"seen": "true"})
	hub.Create(seen)
	hasEvent(t, &hub.Server, seen, "WouldWrite")
	err := a.Client().Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "seen"}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a rule that observes has written: %v", err)
	}

	if found := copiesIn(t, a.Client(), "default"); len(found) != 1 || len(copiesIn(t, hub.Client(), "back")) != 1 {
		t.Errorf("copies were copied: %v", found)
	}
	a.Deregister()
	if found := copiesIn(t, a.Client(), "default"); len(found) > 0 {
		t.Errorf("the copies of a rule with Delete are %v", found)
	}
	if found := copiesIn(t, a.Client(), "orders"); len(found) > 0 {
		t.Errorf("got %v", found)
	}
}

const widgets = `
widgets:
  from: Hub
  kind: {apiVersion: test.example.com/v1, kind: Widget}
  namespaces: {template: "tenant-{{cluster}}"}
  to: {naming: Mirror, namespace: default}
  status: Return
  bringCRD: IfAbsent
`

// The definition of a kind goes down before its objects, and the status of a copy comes back. When the module is deselected, an
// original can be deleted, with an event that says that its copy is left.
func TestStatus(t *testing.T) {
	t.Parallel()
	hub := restrictedHub(t, widgets)
	a := hub.Remote("a")
	hub.InstallCRDs(fleettest.CRD(t, widgetKind, ""))
	hub.Create(namespace("tenant-a", nil))
	original := widget("tenant-a")
	hub.Create(original)
	copied := widget("default")
	exists(a, copied)
	copied.Object["status"] = map[string]any{"phase": "Done"}
	testkit.Must(t, a.Client().Status().Update(t.Context(), copied))
	found := widget("tenant-a")
	hub.WaitFor(found, func() error {
		if phase, _, _ := unstructured.NestedString(found.Object, "status", "phase"); phase != "Done" {
			return fmt.Errorf("the status has the phase %q", phase)
		}
		return nil
	})

	a.Change(func(c *hubv1.Cluster) { c.Spec.Modules = []string{"none"} })
	a.WaitModuleGone("sync")
	hub.Delete(original)
	hub.WaitGone(original)
	hasEvent(t, &hub.Server, original, rules.ReasonCopyLeftBehind)
	exists(a, copied)
}

var widgetKind = schema.GroupVersionKind{Group: "test.example.com", Version: "v1", Kind: "Widget"}

func widget(namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": namespace, "name": "w"}, "spec": map[string]any{"size": int64(3)},
	}}
}
