// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// layered returns the catalog with a module whose permissions are one rule for each layer of its configuration, and which counts
// the calls of its function. Each override is for remotes with a label of its name; bad and one together are an error.
func layered(t *testing.T, calls *int, names ...string) catalog.Catalog {
	t.Helper()
	of := func(layers []json.RawMessage) (found catalog.ConfigRules, err error) {
		*calls++
		var resources []string
		for _, layer := range layers {
			resources = append(resources, strings.Trim(string(layer), `"`))
		}
		if slices.Contains(resources, "bad") && slices.Contains(resources, "one") {
			return found, errors.New("one and bad")
		}
		for i, resource := range resources {
			rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}}
			found.Remote = append(found.Remote, rules...)
			found.Hub = append(found.Hub, rbac.NamespacedRules{Namespace: fmt.Sprint("n", i), Rules: rules})
		}
		return found, nil
	}
	config := catalog.ConfigType{Provide: func([]json.RawMessage) (fx.Option, error) { return fx.Options(), nil }}
	all, err := catalog.New(catalog.Options{
		Modules:  []catalog.Module{{Name: "layered", RulesOf: of, Config: config, Parts: catalog.Parts{Remote: fx.Options()}}},
		SharedBy: func(*catalog.Module) ([]catalog.Shared, error) { return nil, nil },
	})
	must(t, err)
	c := moduleconfig.Config{Name: "layered", Config: json.RawMessage(`"base"`)}
	for _, name := range names {
		c.Overrides = append(c.Overrides, moduleconfig.Override{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{name: ""}}, Config: json.RawMessage(`"` + name + `"`),
		})
	}
	if problems := all.Configure([]moduleconfig.Config{c}); len(problems) > 0 {
		t.Fatal(problems)
	}
	return all
}

// A remote has the permissions of the overrides that apply to it, and the questions to it ask for them. The function of the
// module is called once for each set of overrides, and the hub has the rules of each override.
func TestCatalog_ConfigRules(t *testing.T) {
	t.Parallel()
	calls := 0
	all := layered(t, &calls, "one", "two", "bad")
	calls = 0
	resources := func(rules []rbacv1.PolicyRule) (names []string) {
		for _, rule := range rules {
			names = append(names, rule.Resources...)
		}
		return names
	}
	for range 3 {
		for labels, want := range map[string][]string{"": {"base"}, "one": {"base", "one"}, "two": {"base", "two"}, "one two": {"base", "one", "two"}} {
			desired := &state.Desired{Labels: map[string]string{}, Namespaces: []string{"one", "two"}}
			for _, label := range strings.Fields(labels) {
				desired.Labels[label] = ""
			}
			q := all.Questions(desired)
			testkit.Equal(t, resources(q.Rules[0].Rules), want, labels)
			if !slices.Equal(q.Namespaces, desired.Namespaces) {
				t.Errorf("%q: the questions are about the namespaces %v", labels, q.Namespaces)
			}
			if again := all.Questions(desired); !reflect.DeepEqual(q, again) {
				t.Errorf("%q: the questions are %+v and then %+v", labels, q, again)
			}
			if s := all.Select(desired, catalog.Facts{}); s.Authorized.Reason != state.ReasonPending {
				t.Errorf("%q: Authorized is %+v before the preflight", labels, s.Authorized)
			}
		}
	}
	if calls != 4 {
		t.Errorf("%d calls for four sets of overrides", calls)
	}
	rules, err := all[0].AllRules()
	must(t, err)
	testkit.Equal(t, resources(rules.Remote), []string{"base", "one", "two", "bad"}, "all in remotes")
	if len(rules.Hub) != 2 || len(rules.Hub[0].Rules) != 1 || len(rules.Hub[1].Rules) != 3 {
		t.Errorf("all in the hub: %+v", rules.Hub)
	}
}

// Overrides that are an error together give the remote no permissions of the configuration, and its app fails with the error.
func TestCatalog_ConfigRulesTogether(t *testing.T) {
	t.Parallel()
	calls := 0
	all := layered(t, &calls, "one", "two", "bad")
	desired := &state.Desired{Labels: map[string]string{"one": "", "bad": ""}}
	if q := all.Questions(desired); q != nil {
		t.Errorf("the questions are %+v", q)
	}
	run := all.Select(desired, catalog.Facts{}).Run
	if err := fx.New(fx.NopLogger, run[0].ProvideConfig()).Err(); err == nil ||
		!strings.Contains(err.Error(), `module "layered": the permissions that follow from the configuration: one and bad`) {
		t.Errorf("the app fails with %v", err)
	}
}

// The number of results that are kept has a limit.
func TestCatalog_ConfigRulesLimit(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 11 { // which make 2048 sets
		names = append(names, fmt.Sprint("label", i))
	}
	calls := 0
	all := layered(t, &calls, names...)
	ask := func() int {
		calls = 0
		for set := range 1 << len(names) {
			desired := &state.Desired{Labels: map[string]string{}}
			for i, name := range names {
				if set&(1<<i) != 0 {
					desired.Labels[name] = ""
				}
			}
			all.Questions(desired)
		}
		return calls
	}
	ask()
	if again := ask(); again < 1024 {
		t.Errorf("%d of 2048 results are not kept, want 1024 or more", again)
	}
}
