// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/lru"

	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// Catalog is the list of the hub's modules, each with the operator's configuration.
type Catalog []Item

// Item is a module of the hub with its configuration.
type Item struct {
	Module
	scheme    *runtime.Scheme // the registry's, where there is one
	base      json.RawMessage
	deletes   moduleconfig.Deletes
	overrides []override
	shares    []Shared   // the types that its hub part shares, without values
	depends   []string   // the modules whose hub parts share values that its remote part needs
	known     *lru.Cache // configured, by overrides
}

type override struct {
	selector labels.Selector
	config   json.RawMessage
	deletes  moduleconfig.Deletes
}

// Options are what New makes a Catalog of.
type Options struct {
	Modules []Module
	// Scheme tells which cache filters are for the same kind. Required with cache filters.
	Scheme *runtime.Scheme
	// SharedBy returns the types that the hub part of a module shares, without values. Required.
	SharedBy func(*Module) ([]Shared, error)
}

// New returns a catalog without the operator's configuration. It checks the name, selector, defaults and rules of each
// module, and that no two hub parts share values of one type.
func New(o Options) (Catalog, error) {
	all := make(Catalog, 0, len(o.Modules))
	for _, m := range o.Modules {
		if !moduleName.MatchString(m.Name) {
			return nil, fmt.Errorf("module %q: the name is not a DNS label of 2 to 32 characters", m.Name)
		}
		if all.Find(m.Name) != nil {
			return nil, fmt.Errorf("module %q is in the hub twice", m.Name)
		}
		if err := m.check(o.Scheme); err != nil {
			return nil, errorIn(m.Name, err)
		}
		shares, err := o.SharedBy(&m)
		if err != nil {
			return nil, errorIn(m.Name, fmt.Errorf("its hub part: %w", err))
		}
		all = append(all, Item{Module: m, scheme: o.Scheme, shares: shares, known: lru.New(maxKnownRules)})
	}
	return all, all.checkShared()
}

// Find returns the module with a name, or nil.
func (all Catalog) Find(name string) *Item {
	i := slices.IndexFunc(all, func(e Item) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Unknown returns the names that no module of the hub has, sorted.
func (all Catalog) Unknown(names []string) []string {
	unknown := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return all.Find(name) != nil })
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

func (all Catalog) names() string {
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// Shares reports whether the hub part of the module shares any values.
func (e *Item) Shares() bool { return len(e.shares) > 0 }

// Plain returns the module with its configuration without overrides.
func (e *Item) Plain() Choice { return e.with(nil) }

func (e *Item) with(overrides []int) Choice {
	layers := []json.RawMessage{e.base}
	for _, i := range overrides {
		layers = append(layers, e.overrides[i].config)
	}
	return Choice{Module: e.Module, layers: layers, overrides: overrides, known: e.known}
}

func (e *Item) overridesFor(of map[string]string) []int {
	var apply []int
	for i, o := range e.overrides {
		if o.selector.Matches(labels.Set(of)) {
			apply = append(apply, i)
		}
	}
	return apply
}

func (all Catalog) checkShared() error {
	var problems []error
	by := map[string]string{}
	for _, e := range all {
		for _, s := range e.shares {
			if other, taken := by[s.String()]; taken {
				first, second := min(other, e.Name), max(other, e.Name) // The group has no order.
				problems = append(problems, fmt.Errorf("modules %q and %q both have a %s in their hub part; leave it to one of them, "+
					"the remote part of any module may ask for the value", first, second, s))
			}
			by[s.String()] = e.Name
		}
	}
	return errors.Join(problems...)
}
