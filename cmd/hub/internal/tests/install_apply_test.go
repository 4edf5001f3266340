// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
)

// An API server accepts the manifests and the samples with strict validation, and applying the manifests again changes nothing.
func TestApply_Strict(t *testing.T) {
	t.Parallel()
	c, _ := installed(t)
	before := versions(t, c)
	var applied []string
	err := install.Apply(t.Context(), c, objects(t, install.Options{}), install.ApplyOptions{
		Applied: func(o *unstructured.Unstructured) { applied = append(applied, id(o)) },
	})
	if err != nil || len(applied) != len(before) {
		t.Errorf("applying again: %v, after %v", err, applied)
	}
	if diff := gocmp.Diff(before, versions(t, c)); diff != "" {
		t.Errorf("applying again changes objects:\n%s", diff)
	}
	eventually(t, func() error { // The CRD is served a moment after it was created.
		return c.List(t.Context(), &hubv1.ClusterList{})
	})
	if err := install.Apply(t.Context(), c, kustomize(t, "samples"), install.ApplyOptions{DryRun: true}); err != nil {
		t.Error(err)
	}
	var none hubv1.ClusterList
	if err := c.List(t.Context(), &none); err != nil || len(none.Items) != 0 {
		t.Errorf("a dry run creates %d Clusters (%v)", len(none.Items), err)
	}
}

func versions(t *testing.T, c client.Client) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	for _, object := range objects(t, install.Options{}) {
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		found[id(object)] = object.GetGeneration()
	}
	return found
}

// Apply refuses unknown fields, and fields that another owner has set, with the name of the object. ForceConflicts
// overrides the other owner.
func TestApply_Refused(t *testing.T) {
	t.Parallel()
	c, _ := installed(t)
	all := objects(t, install.Options{})
	service := find(t, all, "Service/clusterfx-system/clusterfx-hub-metrics")
	must(t, unstructured.SetNestedField(service.Object, "x", "spec", "clusterAP"))
	err := install.Apply(t.Context(), c, all, install.ApplyOptions{DryRun: true})
	if err == nil || !strings.Contains(err.Error(), "apply Service clusterfx-hub-metrics") || !strings.Contains(err.Error(), "clusterAP") {
		t.Errorf("an unknown field: %v", err)
	}
	conflict := find(t, objects(t, install.Options{Namespace: "conflict"}), "Namespace//conflict")
	must(t, install.Apply(t.Context(), c, []*unstructured.Unstructured{conflict}, install.ApplyOptions{}))
	taken := conflict.DeepCopy()
	taken.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "baseline"})
	patch, err := taken.MarshalJSON()
	must(t, err)
	err = c.Patch(t.Context(), taken, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner("somebody"), client.ForceOwnership)
	must(t, err)
	again := func(o install.ApplyOptions) error {
		return install.Apply(t.Context(), c, []*unstructured.Unstructured{conflict}, o)
	}
	if err := again(install.ApplyOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "apply Namespace conflict") || !strings.Contains(err.Error(), "--force-conflicts") {
		t.Errorf("a field of another owner: %v", err)
	}
	if err := again(install.ApplyOptions{ForceConflicts: true}); err != nil {
		t.Error(err)
	}
}

// The API server admits the hub's Pod to its namespace, and refuses a Pod that does not drop its capabilities.
func TestApply_RestrictedPodSecurity(t *testing.T) {
	t.Parallel()
	c, _ := installed(t)
	template := deployment(t, objects(t, install.Options{Config: configText})).Spec.Template
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "admitted", Namespace: hubv1.DefaultNamespace, Labels: template.Labels},
		Spec:       template.Spec,
	}
	if err := c.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("the hub's Pod is refused: %v", err)
	}
	pod.Spec.Containers[0].SecurityContext.Capabilities.Drop = nil
	if err := c.Create(t.Context(), pod, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a Pod with capabilities is not refused: %v", err)
	}
}

// The manifests grant the permissions that "hub rbac" prints, and bind them to the account of the hub's Pods.
func TestManifests_RBAC(t *testing.T) {
	t.Parallel()
	all := objects(t, install.Options{})
	printed := parse(t, program(t, "rbac", "--in=hub"))
	if len(printed) != 3 {
		t.Fatalf("hub rbac prints %d roles, want 3", len(printed))
	}
	for i, role := range []string{
		"ClusterRole//clusterfx-hub", "Role/clusterfx-system/clusterfx-hub", "Role/default/clusterfx-hub-events",
	} {
		want := into[rbacv1.ClusterRole](t, printed[i]).Rules
		if diff := gocmp.Diff(want, into[rbacv1.ClusterRole](t, find(t, all, role)).Rules); diff != "" {
			t.Errorf("%s: hub rbac prints -, the manifests grant +:\n%s", role, diff)
		}
	}
	bound := 0
	for _, object := range all {
		if !slices.Contains([]string{"ClusterRoleBinding", "RoleBinding"}, object.GetKind()) {
			continue
		}
		bound++
		binding := into[rbacv1.RoleBinding](t, object)
		want := []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: hubv1.DefaultNamespace,
			Name: deployment(t, all).Spec.Template.Spec.ServiceAccountName,
		}}
		if !gocmp.Equal(binding.Subjects, want) || binding.RoleRef.Name != binding.Name ||
			binding.RoleRef.Kind+"Binding" != object.GetKind() {
			t.Errorf("%s binds %v to %v", id(object), binding.RoleRef, binding.Subjects)
		}
	}
	if bound != 3 {
		t.Errorf("there are %d bindings for three roles", bound)
	}
}

// The program accepts the flags in the Deployment.
func TestManifests_Flags(t *testing.T) {
	t.Parallel()
	args := deployment(t, objects(t, install.Options{})).Spec.Template.Spec.Containers[0].Args
	if help := program(t, append(args, "--help")...); !strings.Contains(help, "--active-replicas") {
		t.Errorf("the hub prints %s", help)
	}
}
