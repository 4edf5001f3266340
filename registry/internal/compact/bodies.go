// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"hash/maphash"
	"sync/atomic"
	"unique"
)

// bodies finds the messages, without their metadata, that several objects have. What one chart puts into many remotes
// differs in its metadata only.
//
// A body that is seen for the first time belongs to its object. From the second time on it is shared, so bodies that are
// all different cost nothing more. What was seen is a table of hashes of a fixed size, in which a hash takes the place of
// an older one: a body may be seen twice for the first time. The hashes have a random key, so an object cannot be made to
// take the place of another one, and the package unique compares the bodies themselves.
type bodies struct {
	seed maphash.Seed
	seen [seenBodies]atomic.Uint64 // hashes
}

const (
	// seenBodies is the number of hashes that are remembered. They take 256 KiB.
	seenBodies = 1 << 15
	// minShared is the size of the smallest body that is shared, in bytes. The entry of a body in the set of all bodies
	// takes some 200 bytes.
	minShared = 512
)

// shared returns the body that all objects share, if it was seen before.
func (b *bodies) shared(body []byte) (all unique.Handle[string], ok bool) {
	if len(body) < minShared {
		return all, false
	}
	hash := maphash.Bytes(b.seed, body)
	if b.seen[hash%seenBodies].Swap(hash) != hash {
		return all, false
	}
	return unique.Make(string(body)), true
}
