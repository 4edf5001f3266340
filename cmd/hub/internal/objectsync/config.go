// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// Module is the name of the module.
const Module = "sync"

// ErrNoRule means that the configuration has no rule of a name.
var ErrNoRule = errors.New("no such rule")

// Config has the rules of a hub. The zero Config has none.
type Config struct{ layers []layer }

// layer is a list of rules for Clusters with some labels. It replaces the lists of the layers before it.
type layer struct {
	selector labels.Selector
	rules    []rules.Rule
}

// ConfigOf returns the rules in the configuration of the modules of a hub.
func ConfigOf(all []moduleconfig.Config) (Config, error) {
	var c Config
	i := slices.IndexFunc(all, func(m moduleconfig.Config) bool { return m.Name == Module })
	if i < 0 {
		return c, nil
	}
	if err := c.add(labels.Everything(), all[i].Config); err != nil {
		return Config{}, err
	}
	for _, o := range all[i].Overrides {
		selector, err := metav1.LabelSelectorAsSelector(&o.Selector)
		if err != nil {
			return Config{}, fmt.Errorf("read the selector of an override of module %s: %w", Module, err)
		}
		if err := c.add(selector, o.Config); err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

// add adds the rules of a configuration, if it has a list of them.
func (c *Config) add(selector labels.Selector, config json.RawMessage) error {
	var fields map[string]json.RawMessage
	if len(config) == 0 {
		return nil
	}
	if err := json.Unmarshal(config, &fields); err != nil {
		return fmt.Errorf("read the configuration of module %s: %w", Module, err)
	}
	list, ok := fields["rules"]
	if !ok {
		return nil
	}
	one := layer{selector: selector}
	if err := json.Unmarshal(list, &one.rules); err != nil {
		return fmt.Errorf("read the rules of module %s: %w", Module, err)
	}
	one.rules = rules.Config{Rules: one.rules}.Complete()
	c.layers = append(c.layers, one)
	return nil
}

// For returns the rules for a Cluster with some labels.
func (c Config) For(of map[string]string) []rules.Rule {
	for _, one := range slices.Backward(c.layers) {
		if one.selector.Matches(labels.Set(of)) {
			return one.rules
		}
	}
	return nil
}

// Find returns the rule of a name for a Cluster with some labels. The error wraps ErrNoRule.
func (c Config) Find(name string, of map[string]string) (rules.Rule, error) {
	var names []string
	for _, r := range c.For(of) {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return rules.Rule{}, fmt.Errorf("%s: %w; there are %s", name, ErrNoRule, orNone(names))
}

// Names returns the names of all rules, with those of overrides.
func (c Config) Names() []string {
	var names []string
	for _, one := range c.layers {
		for _, r := range one.rules {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Has reports whether there is a rule of a name for any Cluster.
func (c Config) Has(name string) bool { return slices.Contains(c.Names(), name) }

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
