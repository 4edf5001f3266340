// SPDX-License-Identifier: Apache-2.0

package hubcontroller

import (
	"maps"
	"slices"
	"sync"
)

// Index knows which objects have a value, so that an event lists none. It may lag: read the objects that it returns. An index of the
// cache must be declared before the manager starts, and never ends if that stops early (controller-runtime#3440). The zero value is
// ready, also for several goroutines.
type Index struct {
	mu     sync.Mutex // for map operations
	values map[string]string
	names  map[string]map[string]struct{}
}

// Set records the value of an object; empty: it has none, or has gone.
func (u *Index) Set(name, value string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before, known := u.values[name]
	if before == value && known {
		return
	}
	delete(u.values, name)
	delete(u.names[before], name)
	if len(u.names[before]) == 0 {
		delete(u.names, before)
	}
	if value == "" {
		return
	}
	if u.values == nil {
		u.values, u.names = map[string]string{}, map[string]map[string]struct{}{}
	}
	if u.names[value] == nil {
		u.names[value] = map[string]struct{}{}
	}
	u.values[name], u.names[value][name] = value, struct{}{}
}

// Of returns sorted names.
func (u *Index) Of(value string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.names[value]))
}
