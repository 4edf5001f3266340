// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// copying is the configuration of a module that copies objects of a resource from a namespace of the hub into remotes.
type copying struct {
	Resource string `json:"resource"`
	From     string `json:"from"`
	// Mistake makes the function of the module return a wrong rule, a wrong namespace or a panic.
	Mistake string `json:"mistake"`
}

func (c copying) rules() registry.ConfigRules {
	rules := registry.ConfigRules{
		Remote: []rbacv1.PolicyRule{rule(c.Resource, "create")},
		Hub:    []rbac.NamespacedRules{{Namespace: c.From, Rules: []rbacv1.PolicyRule{rule(c.Resource, "get", "list", "watch")}}},
	}
	switch c.Mistake {
	case "rule":
		rules.Remote[0].Verbs = nil
	case "namespace":
		rules.Hub[0].Namespace = "*"
	case "panic":
		panic("no rules")
	}
	return rules
}

// configurable returns the module "copies", whose permissions follow from its configuration.
func configurable(remote fx.Option) registry.Module {
	return registry.NewModule("copies", registry.ModuleOptions{
		Config:  registry.ConfigOf(func() copying { return copying{Resource: "configmaps", From: "default"} }),
		RulesOf: registry.RulesOf(copying.rules),
		Rules:   []rbacv1.PolicyRule{rule("namespaces", "get")},
		Remote:  remote,
	})
}

// configOf returns a configuration of the module "copies" in which each override is for the remotes with its key as their tier.
func configOf(base string, overrides ...[2]string) moduleconfig.Config {
	c := moduleconfig.Config{Name: "copies", Config: json.RawMessage(base)}
	for _, o := range overrides {
		c.Overrides = append(c.Overrides, moduleconfig.Override{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": o[0]}}, Config: json.RawMessage(o[1]),
		})
	}
	return c
}

// A module has the permissions of the defaults until it is configured, then those of the configuration with and without each
// override, and those of one remote when it is selected for its labels.
func TestConfigureModules(t *testing.T) {
	t.Parallel()
	plain := registry.NewModule("plain", registry.ModuleOptions{Rules: []rbacv1.PolicyRule{rule("nodes", "list")}})
	modules := []registry.Module{plain, configurable(nil)}
	all, err := registry.ConfigureModules(modules, []moduleconfig.Config{
		configOf(`{"resource":"secrets"}`, [2]string{"edge", `{"from":"edges"}`}, [2]string{"core", `{"resource":"pods"}`}),
		{Name: "unknown"},
	})
	must(t, err)
	ns, reads := rule("namespaces", "get"), []string{"get", "list", "watch"}
	in := func(namespace string, resources ...string) (one rbac.NamespacedRules) {
		one.Namespace = namespace
		for _, resource := range resources {
			one.Rules = append(one.Rules, rule(resource, reads...))
		}
		return one
	}
	for what, c := range map[string]struct {
		module registry.Module
		remote []rbacv1.PolicyRule
		hub    []rbac.NamespacedRules
	}{
		"defaults": {modules[1], []rbacv1.PolicyRule{ns, rule("configmaps", "create")}, []rbac.NamespacedRules{in("default", "configmaps")}},
		"all": {
			all[1],
			[]rbacv1.PolicyRule{ns, rule("secrets", "create"), rule("pods", "create")},
			[]rbac.NamespacedRules{in("default", "secrets", "pods"), in("edges", "secrets")},
		},
		"a remote": {
			registry.SelectModules(all, map[string]string{"tier": "none"}, []string{"copies"})[0],
			[]rbacv1.PolicyRule{ns, rule("secrets", "create")},
			[]rbac.NamespacedRules{in("default", "secrets")},
		},
		"an override": {
			registry.SelectModules(all, map[string]string{"tier": "edge"}, []string{"copies"})[0],
			[]rbacv1.PolicyRule{ns, rule("secrets", "create")},
			[]rbac.NamespacedRules{in("edges", "secrets")},
		},
		"a module without RulesOf": {all[0], []rbacv1.PolicyRule{rule("nodes", "list")}, nil},
	} {
		if diff := cmp.Diff(c.remote, c.module.Rules()) + cmp.Diff(c.hub, rbac.HubRules(c.module)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", what, diff)
		}
		if got, want := c.module.HasConfigRules(), c.module.Name() == "copies"; got != want {
			t.Errorf("%s: HasConfigRules is %t", what, got)
		}
	}
}

// New and ConfigureModules report a function that panics or takes another type, and rules that grant nothing, with the override.
func TestRulesOf_Mistakes(t *testing.T) {
	t.Parallel()
	other := registry.RulesOf(func(scan) registry.ConfigRules { return registry.ConfigRules{} })
	for want, c := range map[string]struct {
		module registry.Module
		config moduleconfig.Config
	}{
		"lacks verbs":                     {configurable(nil), configOf(`{"mistake":"rule"}`)},
		`"*" is not the name`:             {configurable(nil), configOf(`{"mistake":"namespace"}`)},
		"panic: no rules":                 {configurable(nil), configOf(`{}`, [2]string{"edge", `{"mistake":"panic"}`})},
		"which has none; add Config":      {registry.NewModule("copies", registry.ModuleOptions{RulesOf: other}), configOf("")},
		"takes a registry_test.scan, and": {registry.NewModule("copies", registry.ModuleOptions{RulesOf: other, Config: registry.ConfigOf(func() copying { return copying{} })}), configOf("")},
	} {
		o := offline(t)
		o.Modules, o.ModuleConfigs = []registry.Module{c.module}, []moduleconfig.Config{c.config}
		expectRefused(t, want, o, want, `module "copies"`)
		testkit.ErrorHas(t, testkit.Err(registry.ConfigureModules(o.Modules, o.ModuleConfigs)), want)
	}
}

// Authorized names the permission that only the configuration of a remote requires; other labels change the permissions, and
// with these the objects of the hub that the module may watch.
func TestRulesOf_Authorized(t *testing.T) {
	t.Parallel()
	apps := make(chan registry.Remote, 4)
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{configurable(fx.Invoke(func(p registry.Remote) { apps <- p }))}
		o.ModuleConfigs = []moduleconfig.Config{configOf(`{"resource":"secrets"}`, [2]string{"edge", `{"resource":"configmaps"}`})}
	})
	c := fleettest.Cluster(t, "one")
	config := limited(t, c, unique("configured"), rule("configmaps", "create"), rule("namespaces", "get"))
	must(t, r.Ensure("one", config))
	waiting := expectModule(t, r, "one", "copies", state.ModuleWaiting, state.ReasonRightsMissing)
	expectAuthorized(t, r, "one", metav1.ConditionFalse, state.ReasonRightsMissing)
	info, _ := r.Status("one")
	for _, message := range []string{waiting.Message, info.Authorized.Message} {
		if !strings.Contains(message, "create secrets") || strings.Contains(message, "configmaps") {
			t.Errorf("the message is %q, want the permission for secrets alone", message)
		}
	}

	config.Labels = map[string]string{"tier": "edge"}
	must(t, r.Ensure("one", config))
	expectModule(t, r, "one", "copies", state.ModuleRunning, state.ReasonRunning)
	expectAuthorized(t, r, "one", metav1.ConditionTrue, state.ReasonAllowed)
	app := <-apps
	configMaps := hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: hubobjects.All()}
	watched, err := app.HubObjects.Watch(configMaps)
	must(t, err)
	var all corev1.ConfigMapList
	must(t, watched.List(t.Context(), &all))
	for _, one := range all.Items {
		if one.Namespace != "default" {
			t.Errorf("a ConfigMap of %s is delivered; the configuration is about default", one.Namespace)
		}
	}
	configMaps.Namespaces = []string{"kube-system"}
	for what, of := range map[string]hubobjects.Selection{
		"configmaps in kube-system": configMaps, "pods in default": {Object: &corev1.Pod{}, Route: hubobjects.All()},
	} {
		testkit.ErrorHas(t, testkit.Err(app.HubObjects.Watch(of)), what+" in the hub; add it to its HubRules, or to those of RulesOf", what)
	}
}
