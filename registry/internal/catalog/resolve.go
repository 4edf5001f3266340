// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
)

// Check reports the errors in the graph of an app with some modules and shared values. The values may be types only:
// Check builds nothing.
type Check func(modules []Choice, shared []Shared) error

// Resolve checks the graph of every module alone, and the graph of all modules together. Then it finds the modules that
// depend on values which the hub parts of others share. static are the values that are shared whether a hub part runs or
// not.
func (all Catalog) Resolve(static []Shared, check Check) error {
	shared := all.shared(static, "")
	together := make([]Choice, 0, len(all))
	for i := range all {
		one := all[i].Plain()
		if err := check([]Choice{one}, shared); err != nil {
			return errorIn(one.Name, err)
		}
		together = append(together, one)
	}
	if err := check(together, shared); err != nil {
		return fmt.Errorf("the modules do not work together: %w", err)
	}
	all.depend(static, check)
	return nil
}

// depend finds the modules that depend on values which the hub parts of others share: modules whose graph is
// incomplete without the values. A module depends on its own hub part if that shares anything.
func (all Catalog) depend(static []Shared, check Check) {
	for i := range all {
		e := &all[i]
		for j := range all {
			other := &all[j]
			if !other.Shares() || e.Remote == nil {
				continue
			}
			if other.Name == e.Name || check([]Choice{e.Plain()}, all.shared(static, other.Name)) != nil {
				e.depends = append(e.depends, other.Name)
			}
		}
	}
}

// shared returns the static values and the types that the hub parts share, except the hub part of one module.
func (all Catalog) shared(static []Shared, without string) []Shared {
	shared := slices.Clone(static)
	for _, e := range all {
		if e.Name != without {
			shared = append(shared, e.shares...)
		}
	}
	return shared
}
