// SPDX-License-Identifier: Apache-2.0

package hubcontroller

import (
	"slices"
	"sync"
)

// Index knows which objects have a value, so that an event lists none. It may lag: read the objects that it returns. An index of the
// cache must be declared before the manager starts, and never ends if that stops early (controller-runtime#3440). The zero value is
// ready, also for several goroutines.
type Index struct {
	mu     sync.Mutex // for map operations
	values map[string]string
}

// Set records the value of an object; empty: it has none, or has gone.
func (u *Index) Set(name, value string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if value == "" {
		delete(u.values, name)
		return
	}
	if u.values == nil {
		u.values = map[string]string{}
	}
	u.values[name] = value
}

// Of returns sorted names.
func (u *Index) Of(value string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var names []string
	for name, has := range u.values {
		if has == value {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
