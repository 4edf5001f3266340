// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"strings"
	"testing"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

func ruleOn(group, verb string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{verb}}
}

// Rules in the hub apply to the namespaces that a module names, and otherwise to all namespaces. Rules on Clusters and
// on paths apply to the whole hub.
func TestHubRules(t *testing.T) {
	t.Parallel()
	module := func(name string, namespaces []string, rules ...rbacv1.PolicyRule) registry.Module {
		return registry.NewModule(name, registry.ModuleOptions{HubRules: rules, HubNamespaces: namespaces})
	}
	configMaps, leases := ruleOn("", "delete", "configmaps"), ruleOn("coordination.k8s.io", "get", "leases")
	paths := rbacv1.PolicyRule{NonResourceURLs: []string{"/version"}, Verbs: []string{"get"}}
	both := rbacv1.PolicyRule{
		APIGroups: []string{"", "clusterfx.dev"}, Resources: []string{"clusters", "clusters/status", "things"}, Verbs: []string{"get"},
	}
	got := rbac.HubRules(
		module("everywhere", nil, leases),
		module("limited", []string{"b", "a", "b"}, configMaps, paths),
		module("mixed", []string{"b"}, both),
		module("nothing", []string{"c"}),
		module("all", []string{"d"}, ruleOn("*", "get", "*")),
		module("ours", []string{"e"}, ruleOn("clusterfx.dev", "get", "*"), ruleOn("*", "list", "clusters")),
	)
	want := []rbac.NamespacedRules{
		{Rules: []rbacv1.PolicyRule{
			leases, paths, ruleOn("clusterfx.dev", "get", "clusters", "clusters/status"),
			ruleOn("clusterfx.dev", "get", "*"), ruleOn("clusterfx.dev", "get", "*"), ruleOn("clusterfx.dev", "list", "clusters"),
		}},
		{Namespace: "a", Rules: []rbacv1.PolicyRule{configMaps}},
		{Namespace: "b", Rules: []rbacv1.PolicyRule{
			configMaps, ruleOn("clusterfx.dev", "get", "things"), ruleOn("", "get", "clusters", "clusters/status", "things"),
		}},
		{Namespace: "d", Rules: []rbacv1.PolicyRule{ruleOn("*", "get", "*")}},
		{Namespace: "e", Rules: []rbacv1.PolicyRule{ruleOn("*", "list", "clusters")}},
	}
	testkit.Equal(t, got, want)
	if both.Resources[2] != "things" || both.APIGroups[0] != "" {
		t.Errorf("the module's own rules were changed: %v", both)
	}
}

// The modules of a remote are selected by names, or else by labels. A module on request is selected by name only, and a
// hub-only module never.
func TestSelected(t *testing.T) {
	t.Parallel()
	app := fx.Invoke(func(registry.Remote) {})
	certs := labels.SelectorFromSet(labels.Set{"certs": "true"})
	all := []registry.Module{
		registry.NewModule("always", registry.ModuleOptions{Remote: app}),
		registry.NewModule("certs", registry.ModuleOptions{Remote: app, Select: registry.Selector{Labels: certs}}),
		registry.NewModule("named", registry.ModuleOptions{Remote: app, Select: registry.Selector{OnRequest: true}}),
		hubModule("hub-only", fx.Options()),
	}
	for _, c := range []struct {
		labels map[string]string
		names  []string
		want   string
	}{
		{nil, nil, "always"},
		{map[string]string{"certs": "false"}, []string{}, "always"},
		{map[string]string{"certs": "true"}, nil, "always certs"},
		{nil, []string{"certs", "named", "hub-only"}, "certs named"},
	} {
		var got []string
		for _, m := range registry.SelectModules(all, c.labels, c.names) {
			got = append(got, m.Name())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("labels %v, names %v select %v, want %s", c.labels, c.names, got, c.want)
		}
	}
}
