// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Facts are what may change of a Cluster while an app runs: its labels. They are safe for use by many goroutines.
type Facts struct {
	labels    atomic.Pointer[map[string]string]
	followers sync.Map // their channels
}

// Labels returns the labels, which must not be changed.
func (f *Facts) Labels() map[string]string {
	if labels := f.labels.Load(); labels != nil {
		return *labels
	}
	return nil
}

// set is called by the actor alone.
func (f *Facts) set(labels map[string]string) {
	if maps.Equal(f.Labels(), labels) {
		return
	}
	f.labels.Store(&labels)
	f.followers.Range(func(c, _ any) bool {
		select {
		case c.(chan struct{}) <- struct{}{}:
		default: // It has not taken the change before.
		}
		return true
	})
}

// Follow returns a channel with one element when the labels have changed since it was read, and a function to end that.
func (f *Facts) Follow() (changed <-chan struct{}, end func()) {
	c := make(chan struct{}, 1)
	f.followers.Store(c, nil)
	return c, func() { f.followers.Delete(c) }
}
