// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Offers are what hub parts share at some moment, by module. The map is replaced, never changed.
type Offers map[string]Offer

// Offer has the values that the hub part of one module shares.
type Offer struct {
	// Life is the number of the hub part's life that made the values.
	Life   int64
	Shared []Shared
}

// With replaces the values of a module's hub part, or withdraws them if offer is nil.
func (o Offers) With(module string, offer *Offer) Offers {
	next := maps.Clone(o)
	delete(next, module)
	if offer != nil {
		next[module] = *offer
	}
	return next
}

// Values returns all shared values.
func (o Offers) Values() []Shared {
	var all []Shared
	for _, module := range slices.Sorted(maps.Keys(o)) {
		all = append(all, o[module].Shared...)
	}
	return all
}

// obstacle returns why a module that depends on hub parts cannot run, or empty strings.
func (o Offers) obstacle(depends []string) (reason, why string) {
	for _, module := range depends {
		if _, runs := o[module]; !runs {
			return state.ReasonHubPartNotRunning, fmt.Sprintf("the hub part of module %s, which shares a value that it needs, "+
				"does not run; it starts when the hub part does", module)
		}
	}
	return "", ""
}

func (o Offers) lives(depends []string) []int64 {
	var all []int64
	for _, module := range depends {
		all = append(all, o[module].Life)
	}
	return all
}
