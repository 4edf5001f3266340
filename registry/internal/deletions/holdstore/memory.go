// SPDX-License-Identifier: Apache-2.0

package holdstore

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
)

// Memory is a Store for a hub whose holds end with its process.
type Memory struct{}

// Load returns nothing.
func (Memory) Load(context.Context) (*Content, error) { return &Content{}, nil }

// Save does nothing.
func (Memory) Save(context.Context, ledger.Hold) error { return nil }

// Remove does nothing.
func (Memory) Remove(context.Context, string) error { return nil }

// Claim records nothing: without a store, removals have no limit.
func (Memory) Claim(context.Context, types.UID, int, time.Time) (claimed bool, others int, err error) {
	return true, 0, nil
}

// Replace does nothing.
func (Memory) Replace(context.Context, string, string, *ledger.Hold) (next string, err error) {
	return "", nil
}
