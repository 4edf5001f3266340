// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

var (
	widget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	gadget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
)

func TestCatalog_Select(t *testing.T) {
	t.Parallel()
	edge := labels.SelectorFromSet(labels.Set{"tier": "edge"})
	rules := []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}
	served := func(kinds ...schema.GroupVersionKind) *machine.PreflightResult {
		f := &machine.PreflightResult{Served: map[schema.GroupVersionKind]bool{widget: false, gadget: false}}
		for _, kind := range kinds {
			f.Served[kind] = true
		}
		return f
	}
	cases := map[string]struct {
		module  catalog.Module
		config  state.Desired
		version string
		found   *machine.PreflightResult

		runs   bool
		waits  string // reason
		rights string // reason of Authorized
	}{
		"the zero selector means all":               {runs: true},
		"labels that match":                         {module: catalog.Module{Select: catalog.Selector{Labels: edge}}, config: state.Desired{Labels: map[string]string{"tier": "edge"}}, runs: true},
		"labels that do not match":                  {module: catalog.Module{Select: catalog.Selector{Labels: edge}}},
		"on request, not requested":                 {module: catalog.Module{Select: catalog.Selector{OnRequest: true}}},
		"on request, and spec.modules asks":         {module: catalog.Module{Select: catalog.Selector{OnRequest: true}}, config: state.Desired{Modules: []string{"one"}}, runs: true},
		"spec.modules names others":                 {config: state.Desired{Modules: []string{"other"}}},
		"a hub part only":                           {module: catalog.Module{Parts: catalog.Parts{Hub: fx.Options()}}},
		"spec.modules is empty":                     {config: state.Desired{Modules: []string{}}},
		"spec.modules goes before labels":           {module: catalog.Module{Select: catalog.Selector{Labels: edge}}, config: state.Desired{Modules: []string{"one"}}, runs: true},
		"a kind that is served":                     {module: catalog.Module{Select: catalog.Selector{Requires: []schema.GroupVersionKind{widget}}}, found: served(widget), runs: true},
		"a kind that is not served":                 {module: catalog.Module{Select: catalog.Selector{Requires: []schema.GroupVersionKind{widget, gadget}}}, found: served(widget), waits: state.ReasonAPIMissing},
		"a kind of which nothing is known":          {module: catalog.Module{Select: catalog.Selector{Requires: []schema.GroupVersionKind{widget}}}, waits: state.ReasonAPIMissing},
		"spec.modules does not help a missing kind": {module: catalog.Module{Select: catalog.Selector{Requires: []schema.GroupVersionKind{widget}}}, config: state.Desired{Modules: []string{"one"}}, found: served(), waits: state.ReasonAPIMissing},
		"a version that is new enough":              {module: catalog.Module{Select: catalog.Selector{MinVersion: "1.30"}}, version: "v1.30.0", runs: true},
		"a version of a vendor":                     {module: catalog.Module{Select: catalog.Selector{MinVersion: "1.30", BelowVersion: "1.31"}}, version: "v1.30.4-eks-1a2b3c+dirty", runs: true},
		"a version that is too old":                 {module: catalog.Module{Select: catalog.Selector{MinVersion: "1.30"}}, version: "v1.29.9", waits: state.ReasonVersionUnsupported},
		"a version that is too new":                 {module: catalog.Module{Select: catalog.Selector{BelowVersion: "1.31"}}, version: "v1.31.0", waits: state.ReasonVersionUnsupported},
		"a version that is none":                    {module: catalog.Module{Select: catalog.Selector{BelowVersion: "1.31"}}, version: "dev", waits: state.ReasonVersionUnsupported},
		"rights that are granted":                   {module: catalog.Module{Rules: rules}, found: served(), runs: true, rights: state.ReasonAllowed},
		"rights that are missing":                   {module: catalog.Module{Rules: rules}, found: &machine.PreflightResult{Missing: map[string][]string{"one": {"list nodes"}}}, waits: state.ReasonRightsMissing, rights: state.ReasonRightsMissing},
		"rights that could not be checked":          {module: catalog.Module{Rules: rules}, found: &machine.PreflightResult{Unknown: "403"}, runs: true, rights: state.ReasonPending},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.module.Name = "one"
			got := catalog.Catalog{{Module: c.module}}.Select(&c.config, catalog.Facts{Version: c.version, Preflight: c.found})
			if runs := len(got.Run) == 1; runs != c.runs {
				t.Errorf("runs: got %t, want %t", runs, c.runs)
			}
			waits := ""
			if len(got.Waiting) == 1 {
				waits = got.Waiting[0].Reason
				if got.Waiting[0].Message == "" {
					t.Error("waiting module has no message")
				}
			}
			if waits != c.waits || got.Authorized.Reason != c.rights {
				t.Errorf("got waiting for %q with permissions %q, want %q and %q", waits, got.Authorized.Reason, c.waits, c.rights)
			}
		})
	}
}

// The operator's configuration selects the remotes of a module in place of its author; spec.modules has the last word.
func TestSelection_Clusters(t *testing.T) {
	t.Parallel()
	edge := &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}
	author := catalog.Selector{OnRequest: true}
	byLabel := catalog.Selector{Labels: labels.SelectorFromSet(labels.Set{"tier": "core"})}
	remote := fx.Options()
	for name, c := range map[string]struct {
		module   catalog.Module
		clusters *metav1.LabelSelector
		desired  state.Desired
		wanted   bool
	}{
		"on request, not configured":     {catalog.Module{Select: author}, nil, state.Desired{}, false},
		"on request, for all":            {catalog.Module{Select: author}, &metav1.LabelSelector{}, state.Desired{}, true},
		"on request, for others":         {catalog.Module{Select: author}, edge, state.Desired{}, false},
		"on request, for these labels":   {catalog.Module{Select: author}, edge, state.Desired{Labels: edge.MatchLabels}, true},
		"in place of the author's":       {catalog.Module{Select: byLabel}, edge, state.Desired{Labels: map[string]string{"tier": "core"}}, false},
		"spec.modules names others":      {catalog.Module{Select: author}, &metav1.LabelSelector{}, state.Desired{Modules: []string{"other"}}, false},
		"spec.modules goes before":       {catalog.Module{Select: author}, edge, state.Desired{Modules: []string{"one"}}, true},
		"the versions still have a word": {catalog.Module{Select: catalog.Selector{MinVersion: "1.99"}}, edge, state.Desired{Labels: edge.MatchLabels}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.module.Name, c.module.Remote = "one", remote
			all := catalog.Catalog{{Module: c.module}}
			if problems := all.Configure([]moduleconfig.Config{{Name: "one", Clusters: c.clusters}}); len(problems) > 0 {
				t.Fatal(problems)
			}
			testkit.Equal(t, len(all.Wanted(&c.desired)) == 1, c.wanted, "wanted")
			tool, err := catalog.Configured(c.module, moduleconfig.Config{Name: "one", Clusters: c.clusters})
			must(t, err)
			if got := tool.Wants(&c.desired); got != c.wanted {
				t.Errorf("a tool says %t, want %t", got, c.wanted)
			}
			if tool.Select.MinVersion != c.module.Select.MinVersion {
				t.Error("the bounds of versions are lost")
			}
		})
	}
}

// A selector that is wrong or without effect is a problem of the field clusters.
func TestSelection_ClustersMistakes(t *testing.T) {
	t.Parallel()
	wrong := &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}
	for want, c := range map[string]struct {
		module   catalog.Module
		clusters *metav1.LabelSelector
	}{
		"name part must consist of": {catalog.Module{Name: "one", Parts: catalog.Parts{Remote: fx.Options()}}, wrong},
		"has no remote part":        {catalog.Module{Name: "one", Parts: catalog.Parts{Hub: fx.Options()}}, &metav1.LabelSelector{}},
	} {
		config := moduleconfig.Config{Name: "one", Clusters: c.clusters}
		problems := catalog.Catalog{{Module: c.module}}.Configure([]moduleconfig.Config{config})
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), "clusters: ") || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%v, want a problem of clusters with %q", problems, want)
		}
		testkit.ErrorHas(t, testkit.Err(catalog.Configured(c.module, config)), want, "a tool says")
	}
}

// An app restarts if its set of modules or their configuration changes, and not because of labels as such.
func TestSelection_Shape(t *testing.T) {
	t.Parallel()
	type size struct{ Size int }
	all, err := catalog.New(catalog.Options{
		Modules: []catalog.Module{{Name: "one", Config: catalog.ConfigType{Provide: func(layers []json.RawMessage) (fx.Option, error) {
			_, err := catalog.Decode(size{1}, layers)
			return fx.Options(), err
		}}}},
		SharedBy: func(*catalog.Module) ([]catalog.Shared, error) { return nil, nil },
	})
	must(t, err)
	problems := all.Configure([]moduleconfig.Config{{
		Name: "one",
		Overrides: []moduleconfig.Override{
			{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}, Config: json.RawMessage(`{"Size":2}`)},
			{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"disk": "slow"}}, Config: json.RawMessage(`{"Size":3}`)},
		},
	}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	shape := func(of map[string]string) string {
		c := state.Desired{Labels: of}
		return all.Select(&c, catalog.Facts{}).Shape(&c)
	}
	plain := shape(nil)
	if other := shape(map[string]string{"owner": "me"}); other != plain {
		t.Errorf("label that no selector uses changes the shape %s to %s", plain, other)
	}
	seen := map[string]bool{plain: true}
	for _, of := range []map[string]string{{"tier": "edge"}, {"disk": "slow"}, {"tier": "edge", "disk": "slow"}} {
		if s := shape(of); seen[s] {
			t.Errorf("%v has the shape of other labels: %s", of, s)
		} else {
			seen[s] = true
		}
	}
}
