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

// ConfigRules are permissions of a module that follow from its configuration, in addition to the Rules and HubRules of its
// ModuleOptions.
type ConfigRules struct {
	// Remote are the permissions that the module needs in a remote.
	Remote []rbacv1.PolicyRule
	// Hub are the permissions that the module needs in the hub, each for one namespace, which has to exist, or for the whole
	// hub if its Namespace is empty. HubNamespaces of the ModuleOptions do not limit them. Rules on Clusters and on paths apply
	// to the whole hub in any case.
	Hub []rbac.NamespacedRules
}

// RulesFunc returns the permissions that follow from the configuration of a module. Make one with RulesOf. The zero RulesFunc
// means that none do.
type RulesFunc struct {
	of func(config any) (ConfigRules, error)
}

// RulesOf returns a RulesFunc that calls rules with a configuration. T is the type of the module's configuration, as in
// ConfigOf. The function is called when the hub starts, for the configuration without overrides and with each of them, and later
// for other overrides that apply to a remote together. It returns the same for equal configurations, and must not block; a panic
// is an error in the configuration.
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

// inCatalog returns the function as the catalog has it, for a type of configurations.
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
		if err != nil {
			return catalog.ConfigRules{}, err
		}
		found := catalog.ConfigRules{Remote: rules.Remote}
		for _, part := range rules.Hub {
			found.Hub = append(found.Hub, catalog.NamespacedRules(part))
		}
		return found, nil
	}
}

// ConfigureModules returns the modules with the operator's configuration, for tools that grant permissions. Rules and
// ConfigHubRules of such a module have the permissions that follow from the configuration for all remotes together: without
// overrides, and with each of them. SelectModules returns the module with the permissions for one remote. Before that a module has
// the permissions that follow from the defaults of its configuration.
//
// The modules select remotes as the configuration says. ConfigureModules reports only errors in selectors and in these
// permissions. A hub checks the whole configuration when it starts.
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

// configRules returns the permissions that follow from the configuration of the module.
func (m Module) configRules() catalog.ConfigRules {
	if m.rules != nil {
		return *m.rules
	}
	rules, _ := m.inner.DefaultRules() // New reports the error.
	return rules
}

// HasConfigRules reports whether permissions of the module follow from its configuration.
func (m Module) HasConfigRules() bool { return m.inner.RulesOf != nil }

// ConfigHubRules returns the permissions in the hub that follow from the configuration of the module, in addition to HubRules.
// See ConfigureModules.
func (m Module) ConfigHubRules() []rbac.NamespacedRules {
	var all []rbac.NamespacedRules
	for _, part := range m.configRules().Hub {
		all = append(all, rbac.NamespacedRules(part))
	}
	return all
}
