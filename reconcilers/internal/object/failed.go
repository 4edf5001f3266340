// SPDX-License-Identifier: Apache-2.0

package object

import "fmt"

// Failed keeps the first of many errors, and their number.
type Failed struct {
	What  string // has failed
	first error
	count int
}

// Note adds an error; nil is none.
func (f *Failed) Note(err error) {
	if err == nil {
		return
	}
	f.count++
	if f.first == nil {
		f.first = err
	}
}

// Err returns the first error, with the number of all.
func (f *Failed) Err() error {
	if f.count > 1 {
		return fmt.Errorf("%d %s, the first one: %w", f.count, f.What, f.first)
	}
	return f.first
}
