// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"maps"
	"sync"
)

// Facts are what may change of a Cluster while an app runs: its labels. They are safe for use by many goroutines.
type Facts struct {
	mu      sync.Mutex // protects the fields; held for a few instructions
	labels  map[string]string
	changed map[chan struct{}]struct{}
}

// Labels returns the labels, which must not be changed.
func (f *Facts) Labels() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.labels
}

func (f *Facts) set(labels map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if maps.Equal(f.labels, labels) {
		return
	}
	f.labels = labels
	for c := range f.changed {
		select {
		case c <- struct{}{}:
		default: // It has not taken the change before.
		}
	}
}

// Follow returns a channel with one element when the labels have changed since it was read, and a function to end that.
func (f *Facts) Follow() (changed <-chan struct{}, end func()) {
	c := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = map[chan struct{}]struct{}{}
	}
	f.changed[c] = struct{}{}
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.changed, c)
	}
}
