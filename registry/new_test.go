// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

func offline(t *testing.T) registry.Options {
	t.Helper()
	return registry.Options{
		Hub: &rest.Config{Host: "https://127.0.0.1:1"}, HubMapper: meta.NewDefaultRESTMapper(nil), Scheme: fleettest.Scheme(t), Policy: policy,
	}
}

// expectRefused fails the test unless New returns an error with all texts.
func expectRefused(t *testing.T, what string, o registry.Options, texts ...string) {
	t.Helper()
	_, err := registry.New(o)
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: New returns %v, want an error with %q", what, err, text)
		}
	}
}

// New refuses modules that can never work, and options that contradict each other, before anything runs.
func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	type unknown struct{}
	module := func(name string, o registry.ModuleOptions) registry.Module { return registry.NewModule(name, o) }
	provides := registry.ModuleOptions{Remote: fx.Provide(func() *unknown { return nil })}
	selecting := func(s registry.Selector) registry.ModuleOptions { return registry.ModuleOptions{Select: s} }
	var has runner
	for what, c := range map[string]struct {
		modules []registry.Module
		change  func(*registry.Options)
		text    string
	}{
		"a missing dependency": {
			modules: []registry.Module{module("greedy", registry.ModuleOptions{Remote: fx.Invoke(func(*unknown) {})})}, text: "unknown",
		},
		"a bad name":                 {modules: []registry.Module{module("Bad Name", registry.ModuleOptions{})}, text: "DNS label"},
		"a name twice":               {modules: []registry.Module{module("same", registry.ModuleOptions{}), module("same", registry.ModuleOptions{})}, text: "twice"},
		"two that provide the same":  {modules: []registry.Module{module("one", provides), module("two", provides)}, text: "do not work together"},
		"a bound that is no version": {modules: []registry.Module{module("one", selecting(registry.Selector{MinVersion: "new"}))}, text: "new"},
		"bounds without a version":   {modules: []registry.Module{module("one", selecting(registry.Selector{MinVersion: "1.31", BelowVersion: "1.31"}))}, text: "1.31"},
		"a kind without a version": {
			modules: []registry.Module{module("one", selecting(registry.Selector{Requires: []schema.GroupVersionKind{{Group: "apps", Kind: "Deployment"}}}))},
			text:    "Deployment",
		},
		"a namespace that is no name": {
			modules: []registry.Module{module("limited", registry.ModuleOptions{HubNamespaces: []string{"default", "*"}})},
			text:    `module "limited": "*" is not the name of a namespace`,
		},
		"a middleware without a name": {change: func(o *registry.Options) { o.Middleware = []registry.Middleware{{}} }, text: "name"},
		"two middlewares of a name":   {change: func(o *registry.Options) { o.Middleware = []registry.Middleware{{Name: "a"}, {Name: "a"}} }, text: `"a"`},
		"apps without a namespace":    {change: func(o *registry.Options) { o.Impersonate = true }, text: "AppsNamespace"},
		"apps in a:b":                 {change: func(o *registry.Options) { o.Impersonate, o.AppsNamespace = true, "a:b" }, text: "AppsNamespace"},
		"shared remotes, no gate":     {change: func(o *registry.Options) { o.Alive, o.Replica = alwaysAlive, "a" }, text: "Gate and Replica"},
		"shared remotes, no name":     {change: func(o *registry.Options) { o.Alive, o.Gate = alwaysAlive, has.gate("a") }, text: "Gate and Replica"},
	} {
		o := offline(t)
		o.Modules = c.modules
		if c.change != nil {
			c.change(&o)
		}
		expectRefused(t, what, o, c.text)
	}
}

func alwaysAlive(string) bool { return true }

// New refuses an invalid configuration of a module with an error that names the module.
func TestNew_ChecksConfigs(t *testing.T) {
	t.Parallel()
	all := metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	of := func(text string) moduleconfig.Config {
		return moduleconfig.Config{Name: "scanner", Config: json.RawMessage(text)}
	}
	override := func(s metav1.LabelSelector, text string) moduleconfig.Config {
		return moduleconfig.Config{Name: "scanner", Overrides: []moduleconfig.Override{{Selector: s, Config: json.RawMessage(text)}}}
	}
	for what, c := range map[string]struct {
		config moduleconfig.Config
		says   string
	}{
		"an unknown module":          {moduleconfig.Config{Name: "scaner"}, `"scaner"`},
		"an unknown field":           {of(`{"sise": 1}`), "sise"},
		"another case":               {of(`{"Size": 1}`), "Size"},
		"a number for a text":        {of(`{"targets": [{"name": 1.30}]}`), "name"},
		"no selector":                {override(metav1.LabelSelector{}, `{}`), "it has no selector"},
		"another type":               {of(`{"size": "much"}`), "size"},
		"a value that is refused":    {of(`{"size": -1}`), "below zero"},
		"an override that is wrong":  {override(all, `{"size": -1}`), "overrides[0]"},
		"a selector that is wrong":   {override(metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}, `{}`), "overrides[0]"},
		"a module without a setting": {moduleconfig.Config{Name: "counter", Config: json.RawMessage(`{}`)}, "no configuration"},
	} {
		o := offline(t)
		o.Modules = []registry.Module{(&scanner{}).module(), (&counter{}).module()}
		o.ModuleConfigs = []moduleconfig.Config{c.config}
		expectRefused(t, what, o, c.says, c.config.Name)
	}
}

// New refuses an invalid filter with an error that names the module.
func TestNew_ChecksCacheFilters(t *testing.T) {
	t.Parallel()
	secrets := registry.CacheFilter{Object: &corev1.Secret{}, Labels: ofTest("x")}
	untyped, metadata := secrets, secrets
	untyped.Object = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
	metadata.Object = &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	for want, filters := range map[string][]registry.CacheFilter{
		"a cache filter has no Object":                       {{Labels: ofTest("x")}},
		"the cache filter of *v1.Secret selects nothing":     {{Object: &corev1.Secret{}, Labels: labels.Nothing()}},
		"the cache filter of *v1.Secret leaves out nothing":  {{Object: &corev1.Secret{}, Labels: labels.Everything()}},
		"the cache filter of *v1.Secret has a namespace wit": {{Object: &corev1.Secret{}, Namespaces: []string{""}}},
		"there are two cache filters of *v1.Secret":          {secrets, secrets},
		"there are two cache filters of /v1, Kind=Secret":    {secrets, untyped},
		"there are two cache filters of /v1, Kind=Secret: ":  {secrets, metadata},
	} {
		o := offline(t)
		o.Modules = []registry.Module{registry.NewModule("faulty", registry.ModuleOptions{CacheFilters: filters})}
		expectRefused(t, want, o, `module "faulty": `+want)
	}
}
