// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/registry/internal/boundcache"
	"github.com/clusterfx/clusterfx/registry/state"
)

// catalog is the list of the hub's modules, each with the operator's configuration.
type catalog []entry

// entry is a module of the hub with its configuration.
type entry struct {
	Module
	scheme    *runtime.Scheme // the registry's, where there is one
	base      json.RawMessage
	overrides []override
	shares    []Shared // the types that its hub part shares, without values
	depends   []string // the modules whose hub parts share values that its remote part needs
}

// override is a part of a configuration that overrides the rest for some remotes.
type override struct {
	selector labels.Selector
	config   json.RawMessage
}

// ModuleConfig is the operator's configuration of one module.
type ModuleConfig struct {
	// Name is the module's.
	Name string `json:"name"`
	// Config overrides the module's defaults, as JSON: fields that are left out keep their defaults.
	Config json.RawMessage `json:"config,omitempty"`
	// Overrides override Config in their order, each for the remotes whose Cluster has the labels that its Selector
	// matches.
	Overrides []ConfigOverride `json:"overrides,omitempty"`
}

// ConfigOverride is a part of a module's configuration for some remotes.
type ConfigOverride struct {
	Selector metav1.LabelSelector `json:"selector"`
	Config   json.RawMessage      `json:"config"`
}

// newCatalog checks the modules and their configuration and reports all errors: in names, selectors, configurations,
// and every module's graph alone and together with the others. It builds nothing and sends no request.
func newCatalog(o Options) (catalog, error) {
	all := make(catalog, 0, len(o.Modules))
	for _, m := range o.Modules {
		if !moduleName.MatchString(m.name) {
			return nil, fmt.Errorf("module %q: the name is not a DNS label of 2 to 32 characters", m.name)
		}
		if all.find(m.name) != nil {
			return nil, fmt.Errorf("module %q is in the hub twice", m.name)
		}
		if err := m.options.Select.check(); err != nil {
			return nil, fmt.Errorf("module %q: %w", m.name, err)
		}
		if err := (&entry{Module: m, scheme: o.Scheme}).checkConfig(); err != nil {
			return nil, fmt.Errorf("module %q: %w", m.name, err)
		}
		rules := slices.Concat(m.options.Rules, m.options.HubRules)
		if err := errors.Join(checkRules(rules), checkNamespaces(m.options.HubNamespaces)); err != nil {
			return nil, fmt.Errorf("module %q: %w", m.name, err)
		}
		shares, err := declaredBy(m)
		if err != nil {
			return nil, fmt.Errorf("module %q: its hub part: %w", m.name, err)
		}
		all = append(all, entry{Module: m, scheme: o.Scheme, shares: shares})
	}
	if err := all.shareOnce(); err != nil {
		return nil, err
	}
	if err := all.configure(o.ModuleConfigs); err != nil {
		return nil, err
	}
	if err := all.validate(o.Shared); err != nil {
		return nil, err
	}
	all.depend(o.Shared)
	return all, nil
}

func (all catalog) find(name string) *entry {
	i := slices.IndexFunc(all, func(e entry) bool { return e.name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// configure checks and stores the operator's configuration of the modules.
func (all catalog) configure(configs []ModuleConfig) error {
	var problems []error
	seen := map[string]bool{}
	for i, c := range configs {
		known := all.find(c.Name)
		switch {
		case known == nil:
			problems = append(problems, &ConfigError{i, -1, fmt.Errorf("this hub has no module %q; it has %s", c.Name, all.names())})
		case seen[c.Name]:
			problems = append(problems, &ConfigError{i, -1, fmt.Errorf("module %q is configured twice; remove one", c.Name)})
		default:
			problems = append(problems, known.configure(i, c)...)
		}
		seen[c.Name] = true
	}
	return errors.Join(problems...)
}

// names lists the modules of the hub for a message.
func (all catalog) names() string {
	var names []string
	for _, e := range all {
		names = append(names, e.name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// ConfigError is one error in the configuration of a module. New returns all of them, joined.
type ConfigError struct {
	// Config is the index in Options.ModuleConfigs, and Override the index in its Overrides, or -1 for none.
	Config, Override int
	err              error
}

// Error names the module and the mistake.
func (e *ConfigError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *ConfigError) Unwrap() error { return e.err }

// configure checks and stores the configuration of a module, which is at an index of Options.ModuleConfigs. It
// returns all errors.
func (e *entry) configure(index int, c ModuleConfig) (problems []error) {
	report := func(override int, err error) {
		problems = append(problems, &ConfigError{index, override, fmt.Errorf("module %q: %w", c.Name, err)})
	}
	e.base = c.Config
	ofBase := joined(e.checkConfig(e.base))
	for _, problem := range ofBase {
		report(-1, problem)
	}
	for i, o := range c.Overrides {
		selector, err := metav1.LabelSelectorAsSelector(&o.Selector)
		switch {
		case len(o.Selector.MatchLabels)+len(o.Selector.MatchExpressions) == 0:
			report(i, fmt.Errorf("overrides[%d]: it has no selector; move a configuration for all remotes to config", i))
		case err != nil:
			report(i, fmt.Errorf("overrides[%d]: %w", i, err))
		}
		for _, problem := range without(joined(e.checkConfig(e.base, o.Config)), ofBase) {
			report(i, fmt.Errorf("overrides[%d]: %w", i, problem))
		}
		e.overrides = append(e.overrides, override{selector, o.Config})
	}
	return problems
}

// checkConfig reports the errors in a configuration of the module.
func (e *entry) checkConfig(layers ...json.RawMessage) error {
	if _, err := e.options.Config.decode(layers...); err != nil {
		return err
	}
	return boundcache.CheckFilters(e.scheme, e.cacheFilters(layers))
}

// wants reports whether the operator selects the module for a remote. Hub-only modules do not apply to remotes.
func (e *entry) wants(c *state.Desired) bool {
	return (e.options.Remote != nil || e.options.Hub == nil && e.options.ForHubParts == nil) && e.options.Select.wants(e.name, c)
}

// overridesFor returns which overrides apply to a remote with these labels.
func (e *entry) overridesFor(of map[string]string) []int {
	var apply []int
	for i, o := range e.overrides {
		if o.selector.Matches(labels.Set(of)) {
			apply = append(apply, i)
		}
	}
	return apply
}

// layers returns the parts of the configuration for a choice of this module; later parts override earlier ones.
func (e *entry) layers(overrides []int) []json.RawMessage {
	all := []json.RawMessage{e.base}
	for _, i := range overrides {
		all = append(all, e.overrides[i].config)
	}
	return all
}

// unknown returns the names that no module of the hub has, sorted.
func (all catalog) unknown(names []string) []string {
	unknown := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return all.find(name) != nil })
	slices.Sort(unknown)
	return slices.Compact(unknown)
}
