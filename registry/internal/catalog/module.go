// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Module is a module as its author declares it, with the fields of registry.ModuleOptions.
type Module struct {
	Name        string
	Description string
	Parts
	Select          Selector
	Config          ConfigType
	CacheFilters    []cache.Filter
	Rules, HubRules []rbacv1.PolicyRule
	HubNamespaces   []string
	HubRuns         string
	RulesOf         func(layers []json.RawMessage) (ConfigRules, error)
	Deletes         deletes.Limits
}

var moduleName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`)

func (m *Module) check(scheme *runtime.Scheme) error {
	if err := m.Select.check(); err != nil {
		return err
	}
	if err := m.checkConfig(scheme); err != nil {
		return err
	}
	if m.Deletes.PerTarget < 0 || m.Deletes.PerFleet < 0 {
		return errNegative
	}
	rules := slices.Concat(m.Rules, m.HubRules)
	return errors.Join(checkRules(rules), CheckNamespaces(m.HubNamespaces...))
}

func (m *Module) checkConfig(scheme *runtime.Scheme, layers ...json.RawMessage) error {
	if _, err := m.Config.provide(layers); err != nil {
		return err
	}
	if err := cache.CheckFilters(scheme, m.filters(layers)); err != nil {
		return err
	}
	_, err := m.rulesOf(layers)
	return err
}

// filters ignores an error of the configuration, which checkConfig reports.
func (m *Module) filters(layers []json.RawMessage) []cache.Filter {
	if m.Config.Filters == nil {
		return m.CacheFilters
	}
	return slices.Concat(m.CacheFilters, m.Config.Filters(layers))
}

// Wants reports whether the operator selects the module for a remote. Hub-only modules do not apply to remotes.
func (m *Module) Wants(c *state.Desired) bool {
	return (m.Remote != nil || m.Hub == nil && m.ForHubParts == nil) && m.Select.wants(m.Name, c)
}

var errNoConfig = errors.New("the module has no configuration; remove its configuration from the hub")

var errNegative = errors.New("a limit of deletes is negative; leave it out for the default")

func errorIn(module string, err error) error { return fmt.Errorf("module %q: %w", module, err) }
