// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
)

// MemoryStore is a Store for a hub whose holds end with its process.
type MemoryStore struct{}

// Load returns nothing.
func (MemoryStore) Load(context.Context) (*StoreContent, error) { return &StoreContent{}, nil }

// Save does nothing.
func (MemoryStore) Save(context.Context, ledger.Held) error { return nil }

// Remove does nothing.
func (MemoryStore) Remove(context.Context, string) error { return nil }

// Claim records nothing: without a store, removals have no limit.
func (MemoryStore) Claim(context.Context, types.UID, int, time.Time) (claimed bool, others int, err error) {
	return true, 0, nil
}

// Replace does nothing.
func (MemoryStore) Replace(context.Context, string, string, *ledger.Held) (next string, err error) {
	return "", nil
}
