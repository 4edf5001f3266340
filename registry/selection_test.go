// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"testing"
	"time"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/state"
)

var (
	widget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	gadget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
)

func TestChoose(t *testing.T) {
	t.Parallel()
	edge := labels.SelectorFromSet(labels.Set{"tier": "edge"})
	rules := []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}
	served := func(kinds ...schema.GroupVersionKind) *preflight.Result {
		f := &preflight.Result{Served: map[schema.GroupVersionKind]bool{widget: false, gadget: false}}
		for _, kind := range kinds {
			f.Served[kind] = true
		}
		return f
	}
	cases := map[string]struct {
		options ModuleOptions
		config  state.Desired
		version string
		found   *preflight.Result

		runs   bool
		waits  string // reason
		rights string // reason of Authorized
	}{
		"the zero selector means all":               {runs: true},
		"labels that match":                         {options: ModuleOptions{Select: Selector{Labels: edge}}, config: state.Desired{Labels: map[string]string{"tier": "edge"}}, runs: true},
		"labels that do not match":                  {options: ModuleOptions{Select: Selector{Labels: edge}}},
		"on request, and nobody asks":               {options: ModuleOptions{Select: Selector{OnRequest: true}}},
		"on request, and spec.modules asks":         {options: ModuleOptions{Select: Selector{OnRequest: true}}, config: state.Desired{Modules: []string{"one"}}, runs: true},
		"spec.modules names others":                 {config: state.Desired{Modules: []string{"other"}}},
		"a hub part only":                           {options: ModuleOptions{Hub: fx.Options()}},
		"spec.modules is empty":                     {config: state.Desired{Modules: []string{}}},
		"spec.modules goes before labels":           {options: ModuleOptions{Select: Selector{Labels: edge}}, config: state.Desired{Modules: []string{"one"}}, runs: true},
		"a kind that is served":                     {options: ModuleOptions{Select: Selector{Requires: []schema.GroupVersionKind{widget}}}, found: served(widget), runs: true},
		"a kind that is not served":                 {options: ModuleOptions{Select: Selector{Requires: []schema.GroupVersionKind{widget, gadget}}}, found: served(widget), waits: state.ReasonAPIMissing},
		"a kind of which nothing is known":          {options: ModuleOptions{Select: Selector{Requires: []schema.GroupVersionKind{widget}}}, waits: state.ReasonAPIMissing},
		"spec.modules does not help a missing kind": {options: ModuleOptions{Select: Selector{Requires: []schema.GroupVersionKind{widget}}}, config: state.Desired{Modules: []string{"one"}}, found: served(), waits: state.ReasonAPIMissing},
		"a version that is new enough":              {options: ModuleOptions{Select: Selector{MinVersion: "1.30"}}, version: "v1.30.0", runs: true},
		"a version of a vendor":                     {options: ModuleOptions{Select: Selector{MinVersion: "1.30", BelowVersion: "1.31"}}, version: "v1.30.4-eks-1a2b3c+dirty", runs: true},
		"a version that is too old":                 {options: ModuleOptions{Select: Selector{MinVersion: "1.30"}}, version: "v1.29.9", waits: state.ReasonVersionUnsupported},
		"a version that is too new":                 {options: ModuleOptions{Select: Selector{BelowVersion: "1.31"}}, version: "v1.31.0", waits: state.ReasonVersionUnsupported},
		"a version that is none":                    {options: ModuleOptions{Select: Selector{BelowVersion: "1.31"}}, version: "dev", waits: state.ReasonVersionUnsupported},
		"rights that are granted":                   {options: ModuleOptions{Rules: rules}, found: served(), runs: true, rights: state.ReasonAllowed},
		"rights that are missing":                   {options: ModuleOptions{Rules: rules}, found: &preflight.Result{Missing: map[string][]string{"one": {"list nodes"}}}, waits: state.ReasonRightsMissing, rights: state.ReasonRightsMissing},
		"rights that nobody could ask for":          {options: ModuleOptions{Rules: rules}, found: &preflight.Result{Unknown: "403"}, runs: true, rights: state.ReasonPending},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := choose(catalog{{Module: NewModule("one", c.options)}}, &c.config, remoteFacts{version: c.version, found: c.found})
			if runs := len(got.run) == 1; runs != c.runs {
				t.Errorf("it runs: %t, want %t", runs, c.runs)
			}
			waits := ""
			if len(got.waiting) == 1 {
				waits = got.waiting[0].Reason
				if got.waiting[0].Message == "" {
					t.Error("it waits, and does not say for what")
				}
			}
			if waits != c.waits || got.authorized.Reason != c.rights {
				t.Errorf("waits for %q with rights %q, want %q and %q", waits, got.authorized.Reason, c.waits, c.rights)
			}
		})
	}
}

// What restarts an app is the set of its modules and their configuration, and not labels as such.
func TestSelection_Shape(t *testing.T) {
	t.Parallel()
	one := NewModule("one", ModuleOptions{Config: ConfigOf(func() struct{ Size int } { return struct{ Size int }{1} })})
	all, err := newCatalog(Options{Modules: []Module{one}, ModuleConfigs: []ModuleConfig{{
		Name: "one",
		Overrides: []ConfigOverride{
			{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}, Config: json.RawMessage(`{"Size":2}`)},
			{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"disk": "slow"}}, Config: json.RawMessage(`{"Size":3}`)},
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	shape := func(of map[string]string) string {
		c := state.Desired{Labels: of}
		return choose(all, &c, remoteFacts{}).shape(&c)
	}
	plain := shape(nil)
	if other := shape(map[string]string{"owner": "me"}); other != plain {
		t.Errorf("a label that selects nothing changes %s to %s", plain, other)
	}
	seen := map[string]bool{plain: true}
	for _, of := range []map[string]string{{"tier": "edge"}, {"disk": "slow"}, {"tier": "edge", "disk": "slow"}} {
		if s := shape(of); seen[s] {
			t.Errorf("%v has the same shape as others: %s", of, s)
		} else {
			seen[s] = true
		}
	}
}

// Changes that come of the remote alone cost fewer and fewer apps.
func TestChoosing_Believes(t *testing.T) {
	t.Parallel()
	var c choosing
	now, apps := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0
	for range 3600 { // an hour in which each second has another answer
		if c.believes(now) {
			apps++
		}
		now = now.Add(time.Second)
	}
	if apps < 10 || apps > 20 {
		t.Errorf("%d apps in an hour", apps)
	}
	if now = now.Add(probe.PreflightCalm + probe.PreflightMaxPause); !c.believes(now) || c.turns != 1 {
		t.Error("a change after a calm time has to wait")
	}
}

func TestOperatorChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after state.Desired
		want  bool
	}{
		"nothing":                    {state.Desired{}, false},
		"an annotation":              {state.Desired{Annotations: map[string]string{"a": "b"}}, false},
		"a label":                    {state.Desired{Labels: map[string]string{"a": "b"}}, true},
		"no modules instead of all":  {state.Desired{Modules: []string{}}, true},
		"a namespace":                {state.Desired{Namespaces: []string{"a"}}, true},
		"other bounds":               {state.Desired{Client: state.ClientLimits{QPS: 1}}, true},
		"a revision and a suspicion": {state.Desired{Revision: "2", CrashRecord: state.CrashRecord{Crashes: 1}}, false},
	} {
		if got := operatorChanges(&state.Desired{}, &c.after); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
