// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"time"
)

// Identity distinguishes a bucket from one that was created in its place, or restored from a backup of it.
type Identity struct {
	// Created is the time at which the stream of the bucket was created. A restored stream keeps it.
	Created time.Time `json:"created"`
	// Counter is the counter of the canary, which only grows.
	Counter uint64 `json:"counter"`
	// Accepted is when an operator has accepted the bucket with this identity, also if its counter is lower than that of the bucket
	// before. The zero time means that no acceptance was needed.
	Accepted time.Time `json:"accepted,omitzero"`
}

// Continues reports whether the bucket is the one of an earlier identity.
func (i Identity) Continues(earlier Identity) bool {
	return i.Created.Equal(earlier.Created) && i.Counter >= earlier.Counter
}

// Anchor remembers the identity of a bucket outside of NATS, beyond the life of the process.
type Anchor interface {
	// Load returns the identity that was saved last, and false if there is none.
	Load(ctx context.Context) (Identity, bool, error)
	// Save replaces the identity.
	Save(ctx context.Context, id Identity) error
}
