// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// Module is the name of the module.
const Module = "sync"

// ErrNoRule means that the configuration has no rule of a name.
var ErrNoRule = errors.New("no such rule")

// Config has the rules of a hub. The zero Config has none.
type Config struct{ book rules.Book }

// ConfigOf returns the rules in the configuration of the modules of a hub.
func ConfigOf(all []moduleconfig.Config) (Config, error) {
	i := slices.IndexFunc(all, func(m moduleconfig.Config) bool { return m.Name == Module })
	if i < 0 {
		return Config{}, nil
	}
	var base rules.Config
	if len(all[i].Config) > 0 {
		if err := json.Unmarshal(all[i].Config, &base); err != nil {
			return Config{}, fmt.Errorf("read the configuration of module %s: %w", Module, err)
		}
	}
	book, err := rules.NewBook(base, all[i].Overrides)
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration of module %s: %w", Module, err)
	}
	return Config{book: book}, nil
}

// For returns the rules for a Cluster with some labels.
func (c Config) For(of map[string]string) []rules.Rule { return c.book.Of(of) }

// Find returns a rule for a Cluster with some labels. The error wraps ErrNoRule.
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

// Names returns all rules, with those of overrides.
func (c Config) Names() []string {
	var names []string
	for _, r := range c.book.All() {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Has reports whether any Cluster has the rule.
func (c Config) Has(name string) bool { return slices.Contains(c.Names(), name) }

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
