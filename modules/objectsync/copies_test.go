// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

const copies = `
services: {from: Hub, kind: {apiVersion: v1, kind: Service}, namespaces: {names: [shop]}, objects: {selector: {matchLabels: {go: down}}}, to: {naming: Mirror}}
claims: {from: Hub, kind: {apiVersion: v1, kind: PersistentVolumeClaim}, namespaces: {names: [shop]}, to: {naming: Mirror}}
jobs: {from: Hub, kind: {apiVersion: batch/v1, kind: Job}, namespaces: {names: [shop]}, to: {naming: Mirror}}
pods: {from: Hub, kind: {apiVersion: v1, kind: Pod}, namespaces: {names: [shop]}, to: {naming: Mirror}}
policies: {from: Hub, kind: {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy}, namespaces: {names: [shop]}, to: {naming: Mirror}}
lost: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [shop]}, to: {naming: Mirror, namespace: nowhere}}
places:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {names: [places]}
  to: {naming: Mirror, namespace: shop}
  patches: [{when: {matchLabels: {region: us}}, path: /data/region, cel: cluster.labels.region}]
widgets:
  from: Hub
  kind: {apiVersion: test.example.com/v1, kind: Widget}
  namespaces: {template: "tenant-{{cluster}}"}
  to: {naming: Mirror, namespace: shop}
  status: Return
  bringCRD: IfAbsent
`

func copiesHub(t *testing.T) (*hubtest.Hub, *hubtest.Remote) {
	t.Helper()
	hub := restrictedHub(t, copies)
	a := hub.Remote("a")
	hub.InstallCRDs(fleettest.CRD(t, widgetKind, typedWidget))
	hub.Create(namespace("tenant-a", nil)) // The declared rights have the others.
	a.Create(namespace("shop", nil))
	return hub, a
}

func patch(t *testing.T, s *hubtest.Server, obj client.Object, body string) {
	t.Helper()
	testkit.Must(t, s.Client().Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body))))
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta("shop", name, nil), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app.kubernetes.io/name": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
}

// What the API server of the hub has allocated stays there, and what somebody has chosen is copied; also after a Service was another
// kind of Service, and after a claim or a Pod is bound.
func TestCopies_Allocated(t *testing.T) {
	t.Parallel()
	hub, a := copiesHub(t)
	original := service("web")
	hub.Create(original)
	taken := service("taken") // with the addresses that the hub has allocated
	taken.Spec.ClusterIP, taken.Spec.Ports[0].NodePort = original.Spec.ClusterIP, original.Spec.Ports[0].NodePort
	a.Create(taken)
	patch(t, &hub.Server, original, `{"metadata":{"labels":{"go":"down"}}}`)
	copied := service("web")
	a.WaitFor(copied, func() error {
		if copied.Spec.ClusterIP == "" || copied.Spec.Ports[0].NodePort == 0 {
			return fmt.Errorf("got %+v", copied.Spec)
		}
		return nil
	})
	patch(t, &hub.Server, original, `{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":null,"clusterIPs":null,"ports":null,"selector":null}}`)
	a.WaitFor(copied, func() error {
		return unless(copied.Spec.Type == "ExternalName" && copied.Spec.ClusterIP == "", copied.Spec)
	})
	patch(t, &hub.Server, original, `{"spec":{"type":"ClusterIP","externalName":null,"clusterIP":"None","ports":[{"port":80}]}}`)
	a.WaitFor(copied, func() error {
		return unless(copied.Spec.Type == "ClusterIP" && copied.Spec.ClusterIP == "None", copied.Spec)
	})

	chosen := service("chosen")
	chosen.Labels, chosen.Spec.Ports[0].NodePort = map[string]string{"go": "down"}, 31999
	hub.Create(chosen)
	found := service("chosen")
	a.WaitFor(found, func() error { return unless(found.Spec.Ports[0].NodePort == 31999, found.Spec) })

	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta("shop", "data", nil), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	hub.Create(claim)
	claimed := &corev1.PersistentVolumeClaim{ObjectMeta: meta("shop", "data", nil)}
	exists(a, claimed)
	patch(t, &hub.Server, claim, `{"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes","pv.kubernetes.io/bind-completed":"yes",
		"seen":"1"}},"spec":{"volumeName":"of-the-hub"}}`)
	a.WaitFor(claimed, func() error { return unless(claimed.Annotations["seen"] == "1", claimed.Annotations) })
	if claimed.Spec.VolumeName != "" || claimed.Annotations["pv.kubernetes.io/bind-completed"] != "" {
		t.Errorf("the claim has the volume %q, and the annotations %v", claimed.Spec.VolumeName, claimed.Annotations)
	}

	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	hub.Create(&batchv1.Job{ObjectMeta: meta("shop", "once", nil), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}})
	exists(a, &batchv1.Job{ObjectMeta: meta("shop", "once", nil)})
	placed, there := &corev1.Pod{ObjectMeta: meta("shop", "placed", nil), Spec: pod}, &corev1.Pod{ObjectMeta: meta("shop", "placed", nil)}
	hub.Create(placed)
	exists(a, there)
	testkit.Must(t, hub.Client().SubResource("binding").Create(t.Context(), placed, &corev1.Binding{Target: corev1.ObjectReference{Name: "of-the-hub"}}))
	patch(t, &hub.Server, placed, `{"metadata":{"annotations":{"seen":"1"}}}`) // A copy with the node would be refused.
	a.WaitFor(there, func() error { return unless(there.Annotations["seen"] == "1", there.Annotations) })
	testkit.Equal(t, there.Spec.NodeName, "", "the node of the copy")
}

// unless returns nil if something is so, and otherwise what is.
func unless(so bool, is any) error {
	if so {
		return nil
	}
	return fmt.Errorf("got %+v", is)
}

// typedWidget is a schema with a default, a list of maps that is replaced as a whole, and a status.
const typedWidget = `{type: object, properties: {
  spec: {type: object, properties: {
    size: {type: integer}, extra: {type: object, additionalProperties: {type: string}},
    users: {type: array, items: {type: object, properties: {name: {type: string}}}},
    timeout: {type: string, nullable: true, default: "30s"}}},
  status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`

// What somebody adds to a copy where the original has an empty map or a list of maps is removed again, as far as the API server does
// so, and null is copied as null.
func TestCopies_Drift(t *testing.T) {
	t.Parallel()
	hub, a := copiesHub(t)
	hub.Create(&networkingv1.NetworkPolicy{ObjectMeta: meta("shop", "deny", nil), Spec: networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
	}})
	policy := &networkingv1.NetworkPolicy{ObjectMeta: meta("shop", "deny", nil)}
	exists(a, policy)
	patch(t, &a.Server, policy, `{"spec":{"podSelector":{"matchLabels":{"app":"none"}}}}`)
	a.WaitFor(policy, func() error { return unless(len(policy.Spec.PodSelector.MatchLabels) == 0, policy.Spec) })

	original := widget("tenant-a")
	original.Object["spec"] = map[string]any{"size": int64(1), "users": []any{map[string]any{"name": "alice"}}, "timeout": nil}
	hub.Create(original)
	copied := widget("shop")
	users := func() int { all, _, _ := unstructured.NestedSlice(copied.Object, "spec", "users"); return len(all) }
	a.WaitFor(copied, func() error { return unless(users() == 1, copied.Object["spec"]) })
	if timeout, isSet := copied.Object["spec"].(map[string]any)["timeout"]; !isSet || timeout != nil {
		t.Errorf("the original has the timeout null, and the copy %v", timeout)
	}
	patch(t, &a.Server, copied, `{"spec":{"users":[{"name":"alice"},{"name":"mallory"}]}}`)
	a.WaitFor(copied, func() error { return unless(users() == 1, copied.Object["spec"]) })
	patch(t, &a.Server, copied, `{"spec":{"timeout":"1s"}}`)
	a.WaitFor(copied, func() error {
		return unless(copied.Object["spec"].(map[string]any)["timeout"] == nil, copied.Object["spec"])
	})
}

// What belongs to others in an empty field of the copy stays, and is no drift: the copy is not written again, also after a restart.
func TestCopies_OfOthers(t *testing.T) {
	t.Parallel()
	hub, a := copiesHub(t)
	original := widget("tenant-a")
	original.Object["spec"] = map[string]any{"size": int64(1), "extra": map[string]any{}}
	hub.Create(original)
	copied := widget("shop")
	exists(a, copied)
	patch(t, &a.Server, copied, `{"spec":{"extra":{"theirs":"1"}}}`)
	for i, again := range []func(){func() {}, hub.Restart} {
		again()
		other := widget("tenant-a")
		other.SetName(fmt.Sprint("other-", i))
		hub.Create(other)
		there := widget("shop")
		there.SetName(other.GetName())
		exists(a, there)
		now := widget("shop")
		exists(a, now)
		testkit.Equal(t, now.GetResourceVersion(), copied.GetResourceVersion(), "time", i, "the copy was written", now.Object)
	}
}

// observedGeneration of the original counts the generations of the original, and never falls; and a status that the hub refuses does
// not keep the spec from going down.
func TestCopies_Status(t *testing.T) {
	t.Parallel()
	hub, a := copiesHub(t)
	original := widget("tenant-a")
	hub.Create(original)
	for size := range 3 {
		patch(t, &hub.Server, original, fmt.Sprintf(`{"spec":{"size":%d}}`, size+10))
	}
	copied := widget("shop")
	a.WaitFor(copied, func() error { return unless(sizeOf(copied) == 12, copied.Object["spec"]) })
	patch(t, &a.Server, copied, `{"metadata":{"finalizers":["example.com/f"]}}`) // The remote has its own history.
	observe := func(generation int64) {
		t.Helper()
		body := fmt.Sprintf(`{"status":{"observedGeneration":%[1]d,"conditions":[{"type":"Ready","status":"True","observedGeneration":%[1]d}]}}`, generation)
		testkit.Must(t, a.Client().Status().Patch(t.Context(), copied, client.RawPatch(types.MergePatchType, []byte(body))))
	}
	found := widget("tenant-a")
	expect := func(when string, want int64) {
		t.Helper()
		hub.WaitFor(found, func() error {
			all, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
			got, _, _ := unstructured.NestedInt64(found.Object, "status", "observedGeneration")
			if len(all) != 1 || got != want || all[0].(map[string]any)["observedGeneration"] != want {
				return fmt.Errorf("%s: the original has generation %d and the status %v, want %d", when, found.GetGeneration(), found.Object["status"], want)
			}
			return nil
		})
	}
	observe(copied.GetGeneration())
	expect("observed", original.GetGeneration())
	before := original.GetGeneration()
	patch(t, &hub.Server, original, `{"spec":{"size":20}}`)
	a.WaitFor(copied, func() error { return unless(sizeOf(copied) == 20, copied.Object["spec"]) })
	observe(copied.GetGeneration() - 1)
	expect("not yet observed", before)
	observe(copied.GetGeneration())
	expect("observed again", original.GetGeneration())

	refuse(t, &hub.Server, admissionv1.Rule{
		APIGroups: []string{"test.example.com"}, APIVersions: []string{"*"}, Resources: []string{"widgets/status"},
	}, "false", func() error {
		return hub.Client().Status().Patch(t.Context(), original.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"x":1}}`)), client.DryRunAll)
	})
	testkit.Must(t, a.Client().Status().Patch(t.Context(), copied, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Refused"}}`))))
	hasEventWith(t, hub, original, "Rejected", "the status of upstream Widget")
	patch(t, &hub.Server, original, `{"spec":{"size":21}}`)
	a.WaitFor(copied, func() error { return unless(sizeOf(copied) == 21, copied.Object["spec"]) })
}

func sizeOf(widget *unstructured.Unstructured) int64 {
	size, _, _ := unstructured.NestedInt64(widget.Object, "spec", "size")
	return size
}

// An original that was made again while the hub did not run, as from a backup, has another UID and its first generation: its copy is marked
// again and not made again, also if it has more than the original.
func TestCopies_Recreated(t *testing.T) {
	t.Parallel()
	hub, a := copiesHub(t)
	original := func() *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: meta("shop", "deny", nil), Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		}}
	}
	first := original()
	first.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	hub.Create(first)
	patch(t, &hub.Server, first, `{"spec":{"policyTypes":["Ingress"]}}`)
	copied := original()
	a.WaitFor(copied, func() error {
		return unless(copied.Annotations["sync.clusterfx.dev/object-generation"] == "2", copied.Annotations)
	})
	hub.Stop()
	hub.Delete(first)
	again := original()
	hub.Create(again)
	hub.Start()
	now := original()
	a.WaitFor(now, func() error {
		return unless(now.Annotations["sync.clusterfx.dev/object-uid"] == string(again.UID), now.Annotations)
	})
	testkit.Equal(t, now.UID, copied.UID, "the copy was made again")
}

// A remote that changes a status all the time costs the hub one write a second, and the last status follows.
func TestCopies_BusyStatus(t *testing.T) {
	t.Parallel()
	hub, a := copiesHub(t)
	original := widget("tenant-a")
	hub.Create(original)
	copied := widget("shop")
	exists(a, copied)
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("test.example.com/v1")
	list.SetKind("WidgetList")
	changes, err := hub.Client().Watch(t.Context(), list, client.InNamespace("tenant-a"))
	testkit.Must(t, err)
	defer changes.Stop()
	const updates = 300
	began, seen, last := time.Now(), map[string]bool{}, fmt.Sprint("phase ", updates-1)
	for i := range updates {
		body := fmt.Sprintf(`{"status":{"phase":"phase %d"}}`, i)
		testkit.Must(t, a.Client().Status().Patch(t.Context(), copied, client.RawPatch(types.MergePatchType, []byte(body))))
	}
	for e := range changes.ResultChan() {
		phase, _, _ := unstructured.NestedString(e.Object.(*unstructured.Unstructured).Object, "status", "phase")
		if seen[phase] = true; phase == last {
			break
		}
	}
	if most := int(time.Since(began)/time.Second) + 3; len(seen) > most { // With none, the first one, and that of a second that has begun.
		t.Errorf("%d updates were written as %d statuses in %s", updates, len(seen), time.Since(began))
	}
}

// Patches see the labels that the Cluster has now, without another start of its app.
func TestCopies_Relabelled(t *testing.T) {
	t.Parallel()
	hub, a := copiesHub(t)
	hub.Create(configMap("places", "here", nil))
	copied := configMap("shop", "here", nil)
	exists(a, copied)
	before, _ := hub.Registry().Status("a")
	for _, region := range []string{"us", ""} {
		a.Change(func(c *hubv1.Cluster) { c.Labels = map[string]string{"region": region} })
		a.WaitFor(copied, func() error { return unless(copied.Data["region"] == region, copied.Data) })
	}
	if after, _ := hub.Registry().Status("a"); after.Epoch != before.Epoch {
		t.Errorf("the app was started again: epoch %d, then %d", before.Epoch, after.Epoch)
	}
}
