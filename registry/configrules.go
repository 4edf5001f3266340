// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// ConfigRules are permissions that follow from the configuration of a module, in addition to Rules and HubRules.
type ConfigRules struct {
	Remote []rbacv1.PolicyRule
	// Hub are needed in the hub, each for one namespace, which must exist, or for the whole hub if its Namespace is
	// empty. HubNamespaces do not limit them. Rules on Clusters and on paths apply to the whole hub in any case.
	Hub []rbac.NamespacedRules
}

// RulesFunc returns the permissions that follow from a configuration. RulesOf makes one. The zero RulesFunc returns none.
type RulesFunc struct {
	of func(config any) (ConfigRules, error)
}

// RulesOf returns a RulesFunc for the configuration T, as in ConfigOf. It runs when the hub starts, without overrides and with
// each, and later for those of a remote. It must return the same for equal configurations and must not block; a panic is an error
// in the configuration.
func RulesOf[T any](rules func(config T) ConfigRules) RulesFunc {
	return RulesFunc{of: func(config any) (found ConfigRules, err error) {
		typed, ok := config.(T)
		if !ok {
			return found, fmt.Errorf("RulesOf takes a %T, and the configuration of the module is a %T; use one type for both", typed, config)
		}
		err = panics.Catch(func() error {
			found = rules(typed)
			return nil
		})
		return found, err
	}}
}

var errRulesOfNothing = errors.New("RulesOf is about the configuration of the module, which has none; add Config")

func (f RulesFunc) inCatalog(of ConfigType) func([]json.RawMessage) (catalog.ConfigRules, error) {
	if f.of == nil {
		return nil
	}
	return func(layers []json.RawMessage) (catalog.ConfigRules, error) {
		if of.decode == nil {
			return catalog.ConfigRules{}, errRulesOfNothing
		}
		config, err := of.decode(layers)
		if err != nil {
			return catalog.ConfigRules{}, err
		}
		rules, err := f.of(config)
		return catalog.ConfigRules(rules), err
	}
}

// ConfigureModules returns modules with the operator's configuration instead of the default, for tools that grant permissions:
// Rules and ConfigHubRules then cover all remotes (without overrides, and with each), SelectModules one remote. Only errors in
// selectors and permissions are reported; a hub checks the rest when it starts.
func ConfigureModules(modules []Module, configs []moduleconfig.Config) ([]Module, error) {
	all := slices.Clone(modules)
	var problems []error
	for i, m := range all {
		one := moduleconfig.Config{Name: m.Name()}
		if c := slices.IndexFunc(configs, func(c moduleconfig.Config) bool { return c.Name == m.Name() }); c >= 0 {
			one = configs[c]
		}
		entry, err := catalog.Configured(m.inner, one)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		rules, err := entry.AllRules()
		problems = append(problems, err)
		all[i].inner.Select = entry.Select
		all[i].entry, all[i].rules = entry, &rules
	}
	return all, errors.Join(problems...)
}

func (m Module) configRules() catalog.ConfigRules {
	if m.rules != nil {
		return *m.rules
	}
	rules, _ := m.inner.DefaultRules() // New reports the error.
	return rules
}

// HasConfigRules reports whether permissions follow from the module's configuration.
func (m Module) HasConfigRules() bool { return m.inner.RulesOf != nil }

// ConfigHubRules returns the permissions in the hub that follow from the configuration; see ConfigureModules.
func (m Module) ConfigHubRules() []rbac.NamespacedRules { return m.configRules().Hub }
