// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"slices"
)

// Neighbours returns replicas in the order in which they act for a shard; the order of two does not depend on a third.
func Neighbours(shard int, names []string) []string {
	sorted := slices.Clone(names)
	slices.SortFunc(sorted, func(x, y string) int {
		return cmp.Or(cmp.Compare(score(shard, Candidate{Name: y}), score(shard, Candidate{Name: x})), cmp.Compare(x, y))
	})
	return sorted
}
