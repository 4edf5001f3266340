// SPDX-License-Identifier: Apache-2.0

package versions_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// startOne starts a hub with a remote of a version, which has a copy of an Order. Its administrator has installed the CRD.
func startOne(t *testing.T, version string, flags ...string) *remote {
	t.Helper()
	f := fleettest.New(t, fleet.Options{})
	cluster, err := f.Create(t.Context(), "hub")
	must(t, err)
	h := newHub(t, cluster, present(t))
	one, err := f.CreateVersion(t.Context(), "one", version, flags...)
	must(t, err)
	r := h.newRemote(one, version)
	must(t, r.admin.Create(t.Context(), fleettest.CRD(t, orderKind(), "")))
	h.originals(r.Name())
	must(t, h.install())
	h.start("first")
	must(t, r.register())
	must(t, r.sync())
	return r
}

// require skips a test whose version has not been built.
func require(t *testing.T, version string) {
	t.Helper()
	if !fleet.HasVersion(version) {
		t.Skipf("%s has not been built: make controlplane KUBERNETES=%s", version, version)
	}
}

// Promise: hub dev mixes versions of Kubernetes, and prints those that run.
func TestDev_mixesVersions(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/dev TestKubernetes")
	const old, young = "v1.30.14", "v1.37.2"
	require(t, old)
	require(t, young)
	cmd := exec.CommandContext(t.Context(), present(t), "dev", "--kubernetes", "1.30,1.37", "--clusters", "2", "--exit-after-ready")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, version := range []string{old, young} {
		testkit.Has(t, string(out), "Kubernetes "+version, "what hub dev prints")
	}
}

// Promise: an app comes back after its remote was upgraded by a minor, and after it was rolled back.
func TestRemote_upgradedAndRolledBack(t *testing.T) {
	fleettest.Slow(t, "nothing: API servers of two versions on the same data")
	const newer = "v1.37.2"
	require(t, newer)
	r := startOne(t, fleet.KubernetesVersion)
	for i, version := range []string{newer, fleet.KubernetesVersion} {
		must(t, r.Change(t.Context(), version))
		must(t, soon(t.Context(), func() error {
			one, err := r.hub.condition(r.Name(), hubv1.ConditionReady)
			if err == nil && one.Status.Version != version {
				err = fmt.Errorf("the status has version %s", one.Status.Version)
			}
			return err
		}))
		value := fmt.Sprint("sort-", i)
		must(t, r.order(value))
		must(t, r.copied(value))
	}
}

// Promise: where an API server refuses an object for a rule that became stricter, the error names the field, and others go on.
func TestRules_becameStricter(t *testing.T) {
	fleettest.Slow(t, "nothing: only versions before 1.33 can be told to check fields that did not change")
	const old = "v1.30.14"
	require(t, old)
	r := startOne(t, old, "--feature-gates=CRDValidationRatcheting=false")
	second := order("orders-" + r.Name())
	second.SetName("milk")
	must(t, r.hub.admin.Create(t.Context(), second))

	crd := &apiextensionsv1.CustomResourceDefinition{}
	must(t, r.admin.Get(t.Context(), client.ObjectKey{Name: "orders.example.com"}, crd))
	short := int64(3) // "green" has five letters.
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: new(true),
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {
			Type: "object", XPreserveUnknownFields: new(true),
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"item": {Type: "string", MaxLength: &short}},
		}},
	}
	must(t, r.admin.Update(t.Context(), crd))
	must(t, soon(t.Context(), func() error { // The rule is in force a moment later.
		err := r.admin.Patch(t.Context(), order(shop), merge(`{"metadata":{"annotations":{"touched":"yes"}}}`), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "spec.item") {
			return fmt.Errorf("the rule is not in force, the dry run says %q", fmt.Sprint(err))
		}
		return nil
	}))

	must(t, r.hub.admin.Patch(t.Context(), order("orders-"+r.Name()), merge(`{"spec":{"cups":2}}`)))
	must(t, soon(t.Context(), func() error {
		var events eventsv1.EventList
		if err := r.hub.admin.List(t.Context(), &events, client.InNamespace("orders-"+r.Name())); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == "Rejected" && strings.Contains(e.Note, "spec.item") }) {
			return fmt.Errorf("no event names spec.item: %v", events.Items)
		}
		return nil
	}))
	must(t, r.hub.admin.Patch(t.Context(), second, merge(`{"spec":{"item":"oat"}}`)))
	must(t, soon(t.Context(), func() error {
		one := order(shop)
		one.SetName("milk")
		if err := r.admin.Get(t.Context(), client.ObjectKeyFromObject(one), one); err != nil {
			return err
		}
		if item, _, _ := unstructured.NestedString(one.Object, "spec", "item"); item != "oat" {
			return fmt.Errorf("the other copy has item %q", item)
		}
		return nil
	}))
}

func merge(text string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(text))
}

// oldOrder is the type of an Order in a program that was made before the field spec.cups.
type oldOrder struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Item string `json:"item,omitempty"`
	} `json:"spec,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (o *oldOrder) DeepCopyObject() runtime.Object {
	other := *o
	o.DeepCopyInto(&other.ObjectMeta)
	return &other
}

// A typed Update loses a field that the type lacks; Apply and Patch keep it, as docs/modules.md says.
func TestUpdate_losesUnknownFields(t *testing.T) {
	t.Parallel()
	cluster := fleettest.Cluster(t, "typed")
	admin := fleettest.Client(t, cluster, func(s *runtime.Scheme) error {
		s.AddKnownTypeWithName(orderKind(), &oldOrder{})
		metav1.AddToGroupVersion(s, orderKind().GroupVersion())
		return nil
	})
	must(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), fleettest.CRD(t, orderKind(), ""))))
	cups := func() int64 {
		one := order(metav1.NamespaceDefault)
		must(t, admin.Get(t.Context(), client.ObjectKeyFromObject(one), one))
		found, _, _ := unstructured.NestedInt64(one.Object, "spec", "cups")
		return found
	}
	newer := order(metav1.NamespaceDefault)
	must(t, unstructured.SetNestedField(newer.Object, int64(2), "spec", "cups"))
	testkit.Eventually(t, func() error { return client.IgnoreAlreadyExists(admin.Create(t.Context(), newer.DeepCopy())) })

	typed := &oldOrder{}
	must(t, admin.Get(t.Context(), client.ObjectKeyFromObject(newer), typed))
	changed := typed.DeepCopyObject().(*oldOrder)
	changed.Spec.Item = "green"
	must(t, admin.Patch(t.Context(), changed, client.MergeFrom(typed)))
	testkit.Equal(t, cups(), 2, "cups after a Patch")

	applied := order(metav1.NamespaceDefault)
	must(t, unstructured.SetNestedField(applied.Object, "black", "spec", "item"))
	must(t, admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("test"), client.ForceOwnership))
	testkit.Equal(t, cups(), 2, "cups after an Apply")

	must(t, admin.Get(t.Context(), client.ObjectKeyFromObject(newer), typed))
	must(t, admin.Update(t.Context(), typed))
	testkit.Equal(t, cups(), 0, "cups after a typed Update")
}
