// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"sync/atomic"
)

// Memory keeps a value for the next process of a test, as a bucket.Anchor does in a cluster. Its zero value has none.
type Memory[T any] struct{ value atomic.Pointer[T] }

// Load returns the value, and whether there is one.
func (m *Memory[T]) Load(context.Context) (value T, found bool, err error) {
	if kept := m.value.Load(); kept != nil {
		return *kept, true, nil
	}
	return value, false, nil
}

// Save replaces the value.
func (m *Memory[T]) Save(_ context.Context, value T) error {
	m.value.Store(&value)
	return nil
}
