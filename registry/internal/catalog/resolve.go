// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
)

// Check reports errors in the graph of an app. The values may be types only: Check builds nothing.
type Check func(modules []Choice, shared []Shared) error

// Resolve checks the graph of every module alone and of all together, and finds the modules that depend on values of
// hub parts. static are shared whether a hub part runs or not.
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

// depend finds modules whose graph is incomplete without values of hub parts. A module depends on its own hub part if
// that shares anything.
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

// shared leaves out the hub part of one module.
func (all Catalog) shared(static []Shared, without string) []Shared {
	shared := slices.Clone(static)
	for _, e := range all {
		if e.Name != without {
			shared = append(shared, e.shares...)
		}
	}
	return shared
}
