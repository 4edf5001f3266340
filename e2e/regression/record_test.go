// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"slices"
	"sync"
	"testing"
)

// record is an ordered list of events.
type record struct {
	mu     sync.Mutex // protects the field
	events []string
}

func (r *record) add(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

// expect fails the test unless these events happened in this order, with any others in between.
func (r *record) expect(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.events
	for _, event := range want {
		at := slices.Index(left, event)
		if at < 0 {
			t.Errorf("want %q in this order, got %q", want, r.events)
			return
		}
		left = left[at+1:]
	}
}
