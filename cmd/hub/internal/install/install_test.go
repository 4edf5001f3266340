// SPDX-License-Identifier: Apache-2.0

package install_test

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
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
)

// kustomize builds a folder of config with the kustomize that is in kubectl.
func kustomize(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	kubectl, err := fleet.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), kubectl, "kustomize", "../../../../config/"+folder)
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

// text returns objects as text, in an order of their own.
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

// find returns the one object of that kind, namespace and name.
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

// What the program installs is what kustomize makes of the same files.
func TestObjects_AreKustomizes(t *testing.T) {
	t.Parallel()
	got, want := text(t, objects(t, install.Options{})), text(t, kustomize(t, "default"))
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("kustomize has -, the program +:\n%s", diff)
	}
}

func TestObjects_Options(t *testing.T) {
	t.Parallel()
	rules := &install.Rules{
		Everywhere: []rbacv1.PolicyRule{{APIGroups: []string{"a"}, Resources: []string{"b"}, Verbs: []string{"get"}}},
		Own:        []rbacv1.PolicyRule{{APIGroups: []string{"a"}, Resources: []string{"c"}, Verbs: []string{"get"}}},
		Events:     []rbacv1.PolicyRule{{APIGroups: []string{"a"}, Resources: []string{"d"}, Verbs: []string{"get"}}},
		Modules: []registry.NamespacedRules{{
			Namespace: "shop", Rules: []rbacv1.PolicyRule{{APIGroups: []string{"a"}, Resources: []string{"e"}, Verbs: []string{"get"}}},
		}},
	}
	all := objects(t, install.Options{Namespace: "elsewhere", Image: "registry.example.com/hub:v1", Replicas: 3, Rules: rules})
	if got := text(t, all); strings.Contains(got, "clusterfx-system") {
		t.Errorf("the other namespace is still in it:\n%s", got)
	}
	find(t, all, "Namespace//elsewhere")
	for _, binding := range []string{
		"ClusterRoleBinding//clusterfx-hub", "RoleBinding/elsewhere/clusterfx-hub", "RoleBinding/default/clusterfx-hub-events",
		"RoleBinding/shop/clusterfx-hub-modules",
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
