// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/clusterfx/clusterfx/registry/state"
)

// offers are the values that the hub parts of modules share at some moment, by module. The map is replaced, never
// changed.
type offers map[string]offer

// offer has the values that the hub part of one module shares.
type offer struct {
	life   int64 // that has made the values
	shared []Shared
}

// values returns all shared values.
func (o offers) values() []Shared {
	var all []Shared
	for _, module := range slices.Sorted(maps.Keys(o)) {
		all = append(all, o[module].shared...)
	}
	return all
}

// obstacle returns why a module that depends on the hub parts of others cannot run, or empty strings.
func (o offers) obstacle(depends []string) (reason, why string) {
	for _, module := range depends {
		if _, runs := o[module]; !runs {
			return state.ReasonHubPartNotRunning, fmt.Sprintf("the hub part of module %s, which shares a value that it needs, "+
				"does not run; it starts when the hub part does", module)
		}
	}
	return "", ""
}

// lives returns the lives of the hub parts that a module depends on.
func (o offers) lives(depends []string) []int64 {
	var all []int64
	for _, module := range depends {
		all = append(all, o[module].life)
	}
	return all
}

// offered returns the values that hub parts share now.
func (env *environment) offered() offers {
	if now := env.offers.Load(); now != nil {
		return *now
	}
	return nil
}

// offer records the values that the hub part of a module shares, or nil if it no longer shares any, and makes every
// actor choose its modules again.
func (r *Registry) offer(module string, o *offer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := maps.Clone(r.offered())
	if next == nil {
		next = offers{}
	}
	delete(next, module)
	if o != nil {
		next[module] = *o
	}
	r.offers.Store(&next)
	for _, a := range r.actors {
		a.do(func() { a.asked = true })
	}
}

// shareOnce reports a type that the hub parts of two modules share.
func (all catalog) shareOnce() error {
	var problems []error
	by := map[string]string{}
	for _, e := range all {
		for _, s := range e.shares {
			if other, taken := by[s.String()]; taken {
				first, second := min(other, e.name), max(other, e.name) // The group has no order.
				problems = append(problems, fmt.Errorf("modules %q and %q both have a %s in their hub part; leave it to one of them, "+
					"the remote part of any module may ask for the value", first, second, s))
			}
			by[s.String()] = e.name
		}
	}
	return errors.Join(problems...)
}

// depend finds the modules that depend on values which the hub parts of others share: modules whose graph is
// incomplete without the values. A module depends on its own hub part if that shares anything.
func (all catalog) depend(static []Shared) {
	for i := range all {
		for _, other := range all {
			if len(other.shares) == 0 || all[i].options.Remote == nil {
				continue
			}
			if other.name == all[i].name || all.lacks(all[i].Module, other.name, static) {
				all[i].depends = append(all[i].depends, other.name)
			}
		}
	}
}

// lacks reports whether the remote part of a module is incomplete without the values that the hub part of another
// module shares.
func (all catalog) lacks(m Module, without string, static []Shared) bool {
	rest := slices.Clone(all)
	if e := rest.find(without); e != nil {
		e.shares = nil
	}
	return rest.complete(m, static) != nil
}
