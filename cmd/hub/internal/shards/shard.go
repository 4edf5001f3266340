// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"hash/fnv"
	"math/bits"

	"k8s.io/apimachinery/pkg/types"
)

// DefaultCount is the number of shards with Clusters of a new installation.
const DefaultCount = 32

// Once is the shard of what runs once. No Cluster is in it, so that a part that is stuck delays no remote.
const Once = 0

// Of returns the shard of a Cluster, from 1 to count, by its hash. count is positive.
func Of(uid types.UID, count int) int {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(uid))
	shard, _ := bits.Mul64(hash.Sum64(), uint64(count))
	return int(shard) + 1
}
