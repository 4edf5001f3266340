// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"hash/maphash"
	"sync/atomic"
	"unique"
)

// bodies finds the messages, without their metadata, that several objects have. Objects of one chart often differ between
// remotes only in their metadata.
//
// A body that is packed for the first time belongs to its object. From the second time on it is shared, so a body that is
// packed once costs nothing more. An object that is packed again with the same body, such as after another list, shares it,
// too, which costs some 200 bytes. A table of hashes of a fixed size has what was packed. A new hash replaces an older one in
// its slot, so a body may be packed for the first time twice. The hashes have a random key, so a remote cannot choose which
// hash it replaces, and the package unique compares the bodies themselves.
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
