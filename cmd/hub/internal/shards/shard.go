// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"fmt"
	"hash/fnv"
	"math/big"
	"math/bits"

	"k8s.io/apimachinery/pkg/types"
)

// DefaultCount is the number of shards of a new installation.
const DefaultCount = 128

const hashBits = 64

// Of returns the shard of a Cluster: a range of the hash of API servers with sharded lists. count is positive.
func Of(uid types.UID, count int) int {
	hash := fnv.New64a() // As sharding.HashField, which formats the number: too slow for the gate of each write.
	_, _ = hash.Write([]byte(uid))
	shard, _ := bits.Mul64(hash.Sum64(), uint64(count))
	return int(shard)
}

// Range returns the first hash of a shard and the first after it, as in a shard selector. The last end has a digit more.
func Range(shard, count int) (start, end string) { return bound(shard, count), bound(shard+1, count) }

// bound is the smallest hash h for which h * count / 2^64 is not less than the shard.
func bound(shard, count int) string {
	b := new(big.Int).Lsh(big.NewInt(int64(shard)), hashBits)
	b.Add(b, big.NewInt(int64(count-1)))
	b.Div(b, big.NewInt(int64(count)))
	return fmt.Sprintf("0x%016x", b)
}
