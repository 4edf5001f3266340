// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"cmp"
	"os/exec"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// kustomize builds a folder of config with the kustomize of kubectl.
func kustomize(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	return kustomizeFolder(t, "../../../../config/"+folder)
}

func kustomizeFolder(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	kubectl, err := fleet.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), kubectl, "kustomize", folder)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kustomize %s: %v", folder, err)
	}
	return parse(t, string(out))
}

func parse(t *testing.T, text string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects
}

// objects returns the objects of an installation.
func objects(t *testing.T, o install.Options) []*unstructured.Unstructured {
	t.Helper()
	all, err := install.Objects(o)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// text returns objects as text, in the order of kind, namespace and name.
func text(t *testing.T, all []*unstructured.Unstructured) string {
	t.Helper()
	all = slices.SortedFunc(slices.Values(all), func(a, b *unstructured.Unstructured) int { return cmp.Compare(id(a), id(b)) })
	var out bytes.Buffer
	if err := install.Write(&out, all); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func id(o *unstructured.Unstructured) string {
	return strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, "/")
}

// find returns the object with this kind, namespace and name.
func find(t *testing.T, all []*unstructured.Unstructured, want string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return id(o) == want })
	if i < 0 {
		t.Fatalf("there is no %s", want)
	}
	return all[i]
}

// into decodes an object strictly.
func into[T any](t *testing.T, o *unstructured.Unstructured) (typed T) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true); err != nil {
		t.Fatalf("%s: %v", id(o), err)
	}
	return typed
}

// The program installs the objects that kustomize builds from the same files.
func TestObjects_AreKustomizes(t *testing.T) {
	t.Parallel()
	got, want := text(t, objects(t, install.Options{})), text(t, kustomize(t, "default"))
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("kustomize has -, the program +:\n%s", diff)
	}
}

// expectApps fails the test unless a hub may impersonate the ServiceAccounts of a namespace without other objects, and
// the ServiceAccounts have the rules of apps.
func expectApps(t *testing.T, all []*unstructured.Unstructured, namespace string, rules *roles.Rules) {
	t.Helper()
	find(t, all, "Namespace//"+namespace)
	for role, want := range map[string][]rbacv1.PolicyRule{
		"Role/" + namespace + "/clusterfx-hub": {{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}}},
		"ClusterRole//clusterfx-apps":          rules.Apps,
		"Role/shop/clusterfx-apps":             rules.Modules[0].Rules,
	} {
		if got := into[rbacv1.ClusterRole](t, find(t, all, role)).Rules; !gocmp.Equal(got, want) {
			t.Errorf("%s grants %v", role, got)
		}
	}
	for _, binding := range []string{"ClusterRoleBinding//clusterfx-apps", "RoleBinding/shop/clusterfx-apps"} {
		want := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + namespace}}
		if got := into[rbacv1.ClusterRoleBinding](t, find(t, all, binding)).Subjects; !gocmp.Equal(got, want) {
			t.Errorf("%s binds %v", binding, got)
		}
	}
	for _, object := range all {
		known := []string{"Role/" + namespace + "/clusterfx-hub", "RoleBinding/" + namespace + "/clusterfx-hub"}
		if object.GetNamespace() == namespace && !slices.Contains(known, id(object)) {
			t.Errorf("%s is in the namespace of the ServiceAccounts", id(object))
		}
	}
	want := []string{"--impersonate-apps", "--apps-namespace=" + namespace}
	if args := deployment(t, all).Spec.Template.Spec.Containers[0].Args; !gocmp.Equal(args[len(args)-2:], want) {
		t.Errorf("the Deployment has the arguments %v", args)
	}
}

// For apps that act as ServiceAccounts, the program installs the objects in the folder for kustomize, with the roles
// that "hub rbac" prints.
func TestObjects_Impersonation(t *testing.T) {
	t.Parallel()
	all := objects(t, install.Options{Impersonate: true})
	base := objects(t, install.Options{})
	added := slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(base, func(b *unstructured.Unstructured) bool { return id(b) == id(o) })
	})
	if diff := gocmp.Diff(text(t, kustomize(t, "impersonation")), text(t, added)); diff != "" {
		t.Errorf("kustomize has -, the program +:\n%s", diff)
	}
	for _, role := range parse(t, program(t, "rbac", "--in=hub", "--impersonate-apps"))[:3] {
		if role.GetKind() == "Namespace" {
			find(t, all, id(role))
			continue
		}
		want := into[rbacv1.ClusterRole](t, role).Rules
		if diff := gocmp.Diff(want, into[rbacv1.ClusterRole](t, find(t, all, id(role))).Rules); diff != "" {
			t.Errorf("%s: hub rbac prints -, the manifests grant +:\n%s", id(role), diff)
		}
	}
}

func TestObjects_Options(t *testing.T) {
	t.Parallel()
	rules := &roles.Rules{
		Everywhere: []rbacv1.PolicyRule{{APIGroups: []string{"a"}, Resources: []string{"b"}, Verbs: []string{"get"}}},
		Own:        []rbacv1.PolicyRule{{APIGroups: []string{"a"}, Resources: []string{"c"}, Verbs: []string{"get"}}},
		Apps:       []rbacv1.PolicyRule{{APIGroups: []string{"a"}, Resources: []string{"f"}, Verbs: []string{"get"}}},
		Events:     []rbacv1.PolicyRule{{APIGroups: []string{"a"}, Resources: []string{"d"}, Verbs: []string{"get"}}},
		Modules: []rbac.NamespacedRules{{
			Namespace: "shop", Rules: []rbacv1.PolicyRule{{APIGroups: []string{"a"}, Resources: []string{"e"}, Verbs: []string{"get"}}},
		}},
	}
	all := objects(t, install.Options{
		Namespace: "elsewhere", Image: "registry.example.com/hub:v1", Replicas: 3, Rules: rules, Impersonate: true,
	})
	if got := text(t, all); strings.Contains(got, "clusterfx-system") {
		t.Errorf("the default namespace is in the objects:\n%s", got)
	}
	find(t, all, "Namespace//elsewhere")
	expectApps(t, all, "elsewhere-apps", rules)
	for _, binding := range []string{
		"ClusterRoleBinding//clusterfx-hub", "RoleBinding/elsewhere/clusterfx-hub", "RoleBinding/default/clusterfx-hub-events",
		"RoleBinding/shop/clusterfx-hub-modules", "RoleBinding/elsewhere-apps/clusterfx-hub",
	} {
		want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "clusterfx-hub", Namespace: "elsewhere"}}
		got := into[rbacv1.ClusterRoleBinding](t, find(t, all, binding))
		if !gocmp.Equal(got.Subjects, want) || got.RoleRef.Name != got.Name {
			t.Errorf("%s binds %v to %v", binding, got.RoleRef, got.Subjects)
		}
	}
	for role, want := range map[string][]rbacv1.PolicyRule{
		"ClusterRole//clusterfx-hub": rules.Everywhere, "Role/elsewhere/clusterfx-hub": rules.Own,
		"Role/default/clusterfx-hub-events": rules.Events, "Role/shop/clusterfx-hub-modules": rules.Modules[0].Rules,
	} {
		if got := into[rbacv1.ClusterRole](t, find(t, all, role)).Rules; !gocmp.Equal(got, want) {
			t.Errorf("%s grants %v", role, got)
		}
	}
	if viewer := into[rbacv1.ClusterRole](t, find(t, all, "ClusterRole//clusterfx-viewer")); viewer.Rules[0].APIGroups[0] != "clusterfx.dev" {
		t.Errorf("the role of viewers grants %v", viewer.Rules)
	}
	hub := deployment(t, all)
	if *hub.Spec.Replicas != 3 || hub.Spec.Template.Spec.Containers[0].Image != "registry.example.com/hub:v1" {
		t.Errorf("the Deployment is %+v", hub.Spec)
	}
}
