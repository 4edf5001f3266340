// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/catalog"
)

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

// newCatalog checks the modules and their configuration and reports all errors: in names, selectors, configurations,
// and every module's graph alone and together with the others. It builds nothing and sends no request.
func newCatalog(o Options) (catalog.Catalog, error) {
	all, err := catalog.New(catalog.Options{Modules: inCatalog(o.Modules), Scheme: o.Scheme, SharedBy: declaredBy})
	if err != nil {
		return nil, err
	}
	configs := make([]catalog.Config, 0, len(o.ModuleConfigs))
	for _, c := range o.ModuleConfigs {
		config := catalog.Config{Name: c.Name, Config: c.Config}
		for _, one := range c.Overrides {
			config.Overrides = append(config.Overrides, catalog.Override(one))
		}
		configs = append(configs, config)
	}
	var problems []error
	for _, p := range all.Configure(configs) {
		problems = append(problems, &ConfigError{Config: p.Config, Override: p.Override, err: p.Err})
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return all, all.Resolve(sharedValues(o.Shared), checkGraph)
}
