// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Copies that have no Namespace are reported for each Cluster, with its name, also of originals with long names, and not all of them.
func TestCopies_Events(t *testing.T) {
	t.Parallel()
	hub := restrictedHub(t, copies, hubtest.Remotes("b"))
	const originals = 30
	for i := range originals {
		one := configMap("shop", fmt.Sprintf("%s-%d", strings.Repeat("n", 240), i), nil)
		hub.Create(one)
		for _, cluster := range []string{"a", "b"} {
			if i > 0 { // Of others one Cluster may have events, and another one not.
				break
			}
			first := hasEventWith(t, hub, one, "NamespaceMissing", "Cluster "+cluster+": ")
			if first.Related == nil || first.Related.Kind != "Cluster" || first.Related.Name != cluster {
				t.Errorf("the event is related to %v", first.Related)
			}
		}
	}
	hasEventWith(t, hub, nil, "NamespaceMissing", "left out") // TestEvents_Take shows that no other follows.
}

func hasEventWith(t *testing.T, hub *hubtest.Hub, obj client.Object, reason, text string) (found eventsv1.Event) {
	t.Helper()
	hub.Eventually(func() error {
		var all eventsv1.EventList
		if err := hub.Client().List(t.Context(), &all); err != nil {
			return err
		}
		var seen []string
		for _, e := range all.Items {
			if e.Reason == reason && strings.Contains(e.Note, text) && (obj == nil || e.Regarding.UID == obj.GetUID()) {
				found = e
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Note)
		}
		return errors.New(strings.Join(seen, "; "))
	})
	return found
}

// A definition of an older version, in the remote or in the hub, is reported: the transport of the hub keeps the class of the refusal.
func TestCopies_OlderSchema(t *testing.T) {
	t.Parallel()
	hub := restrictedHub(t, copies)
	a := hub.Remote("a")
	older, newer := fleettest.CRD(t, widgetKind, typedWidget), fleettest.CRD(t, widgetKind, typedWidget)
	delete(older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "users")
	status := newer.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	status["status"] = apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"phase": {Type: "string"}}}
	a.InstallCRDs(older)
	hub.InstallCRDs(newer)
	hub.Create(namespace("tenant-a", nil))
	a.Create(namespace("shop", nil))
	original := widget("tenant-a")
	hub.Create(original)
	copied := widget("shop")
	exists(a, copied)
	patch(t, &hub.Server, original, `{"spec":{"users":[{"name":"alice"}]}}`)
	hasEventWith(t, hub, original, "Rejected", "the schema of the kind lacks a field")
	hasProblem(t, hub, "widgets", hubv1.SyncFieldNotDeclared)
	body := []byte(`{"status":{"phase":"Done","more":"1"}}`)
	testkit.Must(t, a.Client().Status().Patch(t.Context(), copied, client.RawPatch(types.MergePatchType, body)))
	hasEventWith(t, hub, original, "StatusReduced", "Cluster a: ")
	hub.WaitFor(original, func() error {
		phase, _, _ := unstructured.NestedString(original.Object, "status", "phase")
		return unless(phase == "Done", original.Object["status"])
	})
}

const refused = `
pods: {from: Hub, kind: {apiVersion: v1, kind: Pod}, namespaces: {names: [shop]}, to: {naming: Mirror}}
orders: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {template: "tenant-{{cluster}}"}, to: {naming: Mirror, namespace: shop}}
widgets:
  from: Hub
  kind: {apiVersion: test.example.com/v1, kind: Widget}
  namespaces: {template: "tenant-{{cluster}}"}
  to: {naming: Mirror, namespace: shop}
  bringCRD: IfAbsent
`

// What an API server refuses again and again is told with its class: a variable twice, which only an apply refuses, the finalizer of an
// original, and a definition.
func TestCopies_Refused(t *testing.T) {
	t.Parallel()
	hub := restrictedHub(t, refused)
	a := hub.Remote("a")
	definition := fleettest.CRD(t, widgetKind, "")
	refuse(t, &a.Server, admissionv1.Rule{
		APIGroups: []string{"apiextensions.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"customresourcedefinitions"},
	}, "false", func() error { return a.Client().Create(t.Context(), definition.DeepCopy(), client.DryRunAll) })
	hub.InstallCRDs(definition)

	a.Create(namespace("shop", nil))
	hub.Create(namespace("tenant-a", nil))
	twice := &corev1.Pod{ObjectMeta: meta("shop", "twice", nil), Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}}},
	}}}
	hub.Create(twice)
	hasEventWith(t, hub, twice, "Rejected", "DuplicateEntries")

	order := configMap("tenant-a", "order", nil)
	refuse(t, &hub.Server, admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{"configmaps"}},
		"!has(object.metadata.finalizers)", func() error {
			held := configMap("tenant-a", "held", nil)
			held.Finalizers = []string{"example.com/f"}
			return hub.Client().Create(t.Context(), held, client.DryRunAll)
		})
	hub.Create(order)
	hasEventWith(t, hub, order, "Rejected", "change the finalizers of upstream ConfigMap tenant-a/order: Invalid (422)")

	found := hasProblem(t, hub, "widgets", hubv1.SyncRejected)
	testkit.Equal(t, found.Object, "CustomResourceDefinition of Widget")
}

// refuse returns when a policy refuses what try does, and all else for which the expression allowed is false.
func refuse(t *testing.T, s *hubtest.Server, what admissionv1.Rule, allowed string, try func() error) {
	t.Helper()
	name := "no-" + strings.ReplaceAll(what.Resources[0], "/", "-")
	writes := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
	s.Create(&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta("", name, nil), Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
			{RuleWithOperations: admissionv1.RuleWithOperations{Operations: writes, Rule: what}},
		}},
		Validations: []admissionv1.Validation{{Expression: allowed}},
	}}, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta("", name, nil), Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}})
	s.Eventually(func() error {
		if err := try(); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policy is not followed yet: %w", err)
		}
		return nil
	})
}
