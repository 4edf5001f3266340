// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// Journal is what happened in a test, in order. Several goroutines may write it.
type Journal struct {
	mu      sync.Mutex
	entries []string
}

// Note adds an entry.
func (j *Journal) Note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, fmt.Sprintf(format, args...))
}

// All returns the entries.
func (j *Journal) All() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries)
}

// Clear removes all entries.
func (j *Journal) Clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = nil
}

// Count returns the number of entries with this text.
func (j *Journal) Count(entry string) int {
	n := 0
	for _, e := range j.All() {
		if e == entry {
			n++
		}
	}
	return n
}

// Expect fails the test unless the journal has exactly these entries.
func (j *Journal) Expect(t testing.TB, entries ...string) {
	t.Helper()
	if got := j.All(); !slices.Equal(got, entries) {
		t.Errorf("want %q, have %q", entries, got)
	}
}
