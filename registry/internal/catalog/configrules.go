// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/lru"

	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// ConfigRules are the permissions that follow from a configuration; see registry.ConfigRules.
type ConfigRules struct {
	Remote []rbacv1.PolicyRule
	Hub    []rbac.NamespacedRules
}

func (r ConfigRules) check() error {
	problems := []error{checkRules(r.Remote)}
	for _, part := range r.Hub {
		problems = append(problems, checkRules(part.Rules))
		if part.Namespace != "" {
			problems = append(problems, CheckNamespaces(part.Namespace))
		}
	}
	return errors.Join(problems...)
}

// add leaves out rules that are there already.
func (r *ConfigRules) add(other ConfigRules) {
	r.Remote = appendNew(r.Remote, other.Remote)
	for _, part := range other.Hub {
		i := slices.IndexFunc(r.Hub, func(known rbac.NamespacedRules) bool { return known.Namespace == part.Namespace })
		if i < 0 {
			i = len(r.Hub)
			r.Hub = append(r.Hub, rbac.NamespacedRules{Namespace: part.Namespace})
		}
		r.Hub[i].Rules = appendNew(r.Hub[i].Rules, part.Rules)
	}
}

func appendNew(to, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for _, rule := range rules {
		if !slices.ContainsFunc(to, func(known rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(known, rule) }) {
			to = append(to, rule)
		}
	}
	return to
}

func (m *Module) rulesOf(layers []json.RawMessage) (ConfigRules, error) {
	if m.RulesOf == nil {
		return ConfigRules{}, nil
	}
	rules, err := m.RulesOf(layers)
	if err == nil {
		err = rules.check()
	}
	if err != nil {
		return ConfigRules{}, fmt.Errorf("the permissions that follow from the configuration: %w", err)
	}
	return rules, nil
}

// DefaultRules returns the permissions that follow from the defaults of the module's configuration.
func (m *Module) DefaultRules() (ConfigRules, error) { return m.rulesOf(nil) }

type configured struct {
	rules ConfigRules
	err   error
}

// maxKnownRules: a module has one for each set of overrides that some remote has.
const maxKnownRules = 1024

// ConfigRules returns the permissions that follow from the configuration of the module for the remote. They are kept by the
// overrides that apply: the module's function is not called for each remote.
func (c Choice) ConfigRules() (ConfigRules, error) {
	if c.known == nil || c.RulesOf == nil {
		return c.rulesOf(c.layers)
	}
	name := fmt.Sprint(c.overrides)
	if found, ok := c.known.Get(name); ok {
		one, _ := found.(configured)
		return one.rules, one.err
	}
	rules, err := c.rulesOf(c.layers)
	c.known.Add(name, configured{rules, err})
	return rules, err
}

// RulesFor returns the permissions for a remote with these labels: none if several overrides together are invalid, with
// which the app fails.
func (e *Item) RulesFor(labels map[string]string) ConfigRules {
	rules, _ := e.with(e.overridesFor(labels)).ConfigRules() // Choice.ProvideConfig returns the error.
	return rules
}

func (e *Item) rulesFor(labels map[string]string) []rbacv1.PolicyRule {
	return slices.Concat(e.Rules, e.RulesFor(labels).Remote)
}

// AllRules returns the permissions that follow from the configuration without overrides and with each of them alone.
func (e *Item) AllRules() (ConfigRules, error) {
	var all ConfigRules
	var problems []error
	for i := -1; i < len(e.overrides); i++ {
		one := e.Plain()
		if i >= 0 {
			one = e.with([]int{i})
		}
		rules, err := one.ConfigRules()
		problems = append(problems, err)
		all.add(rules)
	}
	return all, errors.Join(problems...)
}

// Configured returns the module for tools that grant permissions. It reports only problems of selectors and
// permissions; New and Configure check the rest.
func Configured(m Module, c moduleconfig.Config) (*Item, error) {
	e := &Item{Module: m, base: c.Config, known: lru.New(maxKnownRules)}
	if err := e.selectBy(c.Clusters); err != nil {
		return nil, errorIn(m.Name, err)
	}
	for i, o := range c.Overrides {
		selector, err := metav1.LabelSelectorAsSelector(&o.Selector)
		if err != nil {
			return nil, errorIn(m.Name, fmt.Errorf("overrides[%d]: %w", i, err))
		}
		e.overrides = append(e.overrides, override{selector, o.Config, o.Deletes})
	}
	if _, err := e.AllRules(); err != nil {
		return nil, errorIn(m.Name, err)
	}
	return e, nil
}

// checkRules reports a rule that grants nothing.
func checkRules(rules []rbacv1.PolicyRule) error {
	for _, r := range rules {
		onPaths := len(r.NonResourceURLs) > 0
		if len(r.Verbs) == 0 || !onPaths && (len(r.APIGroups) == 0 || len(r.Resources) == 0) {
			return fmt.Errorf("the rule %s lacks verbs, apiGroups or resources", r.String())
		}
	}
	return nil
}

// CheckNamespaces reports an invalid name of a namespace.
func CheckNamespaces(names ...string) error {
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%q is not the name of a namespace: %s", name, strings.Join(problems, "; "))
		}
	}
	return nil
}
