// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// kettleCRD is a kind whose status is a field like any other.
const kettleCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kettles.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Kettle, listKind: KettleList, plural: kettles, singular: kettle}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {litres: {type: integer}}}
          status: {type: object, properties: {state: {type: string}}}
`

func kettleKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Kettle"}
}

// noStatusSubresource brings back the status of a kind without that subresource.
func noStatusSubresource(t *testing.T, all []*fleet.Cluster) {
	t.Helper()
	t.Parallel()
	w := newWorldOf(t, all, setting{
		namespaces: []string{"kettles"}, target: "kettle-copies", oneToOne: true, identity: syncer.Identity{Tenant: "kettles"},
	})
	w.register = func(p *syncer.Pair) error {
		c := &syncer.Copy[*unstructured.Unstructured]{Called: "kettles", Status: true}
		return syncer.Register(p, c, syncer.NewNamespaced[*unstructured.Unstructured](p.Identity(), syncer.TranslatorOptions{}),
			syncer.Options[*unstructured.Unstructured]{Kind: kettleKind()})
	}
	up := kettle("kettles", "k")
	must(t, unstructured.SetNestedField(up.Object, int64(2), "spec", "litres"))
	for _, c := range w.people {
		crd := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(kettleCRD), &crd.Object))
		must(t, c.Create(t.Context(), crd))
		eventually(t, func() error { // The kind is served some time after its definition.
			return c.Create(t.Context(), kettle("default", "probe"))
		})
	}
	must(t, w.people[above].Create(t.Context(), up))
	p := w.begin(t, moment{})
	copied := kettle("kettle-copies", "k-x-kettles-x-kettles")
	eventually(t, func() error { return w.people[below].Get(t.Context(), client.ObjectKeyFromObject(copied), copied) })
	for _, state := range []string{"warm", "hot"} {
		must(t, w.people[below].Patch(t.Context(), copied, merge(`{"status":{"state":"`+state+`"}}`)))
		eventually(t, func() error {
			err := w.people[above].Get(t.Context(), client.ObjectKeyFromObject(up), up)
			if got, _, _ := unstructured.NestedString(up.Object, "status", "state"); err == nil && got != state {
				err = fmt.Errorf("the state is %q, want %q", got, state)
			}
			return err
		})
	}
	must(t, w.people[above].Delete(t.Context(), up))
	eventually(t, func() error {
		var left, copies unstructured.UnstructuredList
		left.SetGroupVersionKind(kettleKind())
		copies.SetGroupVersionKind(kettleKind())
		err := errors.Join(w.people[above].List(t.Context(), &left, client.InNamespace("kettles")),
			w.people[below].List(t.Context(), &copies, client.InNamespace("kettle-copies")))
		if err == nil && len(left.Items)+len(copies.Items) > 0 {
			err = errors.New("the kettles have not gone")
		}
		return err
	})
	p.kill()
	// The subresource is tried once.
	statuses, err := all[above].AuditEvents(fleet.ByAgent(w.agent()), func(e fleet.AuditEvent) bool { return e.Object.Subresource == "status" })
	must(t, err)
	if len(statuses) > 1 {
		t.Errorf("the pair sent %d requests to a subresource that does not exist: %v", len(statuses), statuses)
	}
}

func kettle(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kettleKind())
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// rejected is a downstream cluster that refuses the copies: they are tried seldom, and an event says so.
func rejected(t *testing.T, all []*fleet.Cluster) {
	t.Helper()
	t.Parallel()
	w := newWorldOf(t, all, setting{ // A finalizer would be one more event, and one more attempt.
		namespaces: []string{"refused"}, target: "refused-copies", identity: syncer.Identity{Tenant: "refused"},
	})
	c := w.people[below]
	meta := metav1.ObjectMeta{Name: "refuse"}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: inNamespace(w.target),
		Validations:      []admissionv1.Validation{{Expression: `!has(object.data) || object.data.k != "1"`, Message: "k is 1"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: meta.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	must(t, errors.Join(c.Create(t.Context(), policy), c.Create(t.Context(), binding)))
	eventually(t, func() error { // A policy takes effect some time after it was created.
		probe := w.original(0, "probe")
		probe.Namespace = w.target
		if err := c.Create(t.Context(), probe, client.DryRunAll); err == nil {
			return errors.New("the policy has no effect")
		}
		return nil
	})
	up := w.original(0, "a")
	must(t, w.people[above].Create(t.Context(), up.DeepCopy()))
	w.begin(t, moment{})
	var attempts []fleet.AuditEvent
	eventually(t, func() (err error) {
		attempts, err = w.downstream.AuditEvents(fleet.ByAgent(w.agent()), fleet.AuditEvent.Writes)
		if err == nil && len(attempts) < 4 {
			err = fmt.Errorf("there were %d attempts", len(attempts))
		}
		return err
	})
	for i := range 3 { // 1 s, 2 s and 4 s, less the tolerance of a busy machine
		pause := attempts[i+1].Received.Sub(attempts[i].Received)
		if least := time.Second << i * 9 / 10; pause < least {
			t.Errorf("the pause after attempt %d is %s, want at least %s", i+1, pause, least)
		}
	}
	w.expectEvent(up.Name, syncer.ReasonRejected, "ConfigMap")
	// An edit is tried at once.
	must(t, w.people[above].Patch(t.Context(), up.DeepCopy(), merge(`{"data":{"k":"2"}}`)))
	eventually(t, w.check)
}

func inNamespace(name string) *admissionv1.MatchResources {
	return &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": name}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}}},
	}
}

// expectEvent waits for an event about an original.
func (w *world) expectEvent(name, reason, text string) {
	w.t.Helper()
	eventually(w.t, func() error {
		var all eventsv1.EventList
		if err := w.people[above].List(w.t.Context(), &all, client.InNamespace(w.namespaces[0])); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Regarding.Name == name && e.Reason == reason && strings.Contains(e.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("there is no event %s about %s with %q: %v", reason, name, text, all.Items)
	})
}

// mutated is a downstream cluster that changes the copies: each state is written once, and an event says which field changes.
func mutated(t *testing.T, all []*fleet.Cluster) {
	t.Helper()
	t.Parallel()
	w := newWorldOf(t, all, setting{
		namespaces: []string{"changed"}, target: "changed-copies", oneToOne: true, identity: syncer.Identity{Tenant: "changed"},
	})
	c := w.people[below]
	meta := metav1.ObjectMeta{Name: "change"}
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: inNamespace(w.target), ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		Mutations: []admissionv1.Mutation{{
			PatchType: admissionv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionv1.ApplyConfiguration{
				Expression: `Object{data: {"k": "changed"}}`,
			},
		}},
	}}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: meta, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name},
	}
	must(t, errors.Join(c.Create(t.Context(), policy), c.Create(t.Context(), binding)))
	eventually(t, func() error {
		probe := w.original(0, "probe")
		probe.Namespace = w.target
		if err := c.Create(t.Context(), probe, client.DryRunAll); err != nil || probe.Data["k"] != "changed" {
			return fmt.Errorf("the policy has no effect: %w", err)
		}
		return nil
	})
	up := w.original(0, "a")
	must(t, w.people[above].Create(t.Context(), up.DeepCopy()))
	w.begin(t, moment{})
	w.expectEvent(up.Name, syncer.ReasonContended, "data.k")
	for i := range 3 {
		value := fmt.Sprint("edit-", i)
		must(t, w.people[above].Patch(t.Context(), up.DeepCopy(), merge(`{"data":{"l":"`+value+`"}}`)))
		eventually(t, func() error {
			if got := w.onlyCopy(up).Data["l"]; got != value {
				return fmt.Errorf("l is %q", got)
			}
			return nil
		})
	}
	// An original that comes later is written after everything that the pair has to write for the first one.
	must(t, w.people[above].Create(t.Context(), w.original(0, "later")))
	w.expectEvent("later", syncer.ReasonContended, "data.k")
	writes, err := w.downstream.AuditEvents(fleet.ByAgent(w.agent()), fleet.AuditEvent.Writes)
	must(t, err)
	if len(writes) != 5 { // two creates, three edits
		t.Errorf("there were %d writes, want 5: %v", len(writes), writes)
	}
}
