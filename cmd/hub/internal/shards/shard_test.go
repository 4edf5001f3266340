// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// The shard of a UID must never change: another one would give a Cluster to two replicas during an upgrade.
func TestOf_IsStable(t *testing.T) {
	t.Parallel()
	for uid, want := range map[types.UID]int{
		"": 26, "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee": 19, "test-uid-12345": 27,
	} {
		if got := Of(uid, DefaultCount); got != want {
			t.Errorf("%q has shard %d, want %d", uid, got, want)
		}
	}
}

// 10 000 Clusters spread over the shards like balls that are thrown at random.
func TestOf_Spreads(t *testing.T) {
	t.Parallel()
	const clusters = 10_000
	counts := make([]int, 128)
	for range clusters {
		counts[Of(uuid.NewUUID(), len(counts))-1]++
	}
	const mean = float64(clusters) / 128
	chi := 0.0
	for _, n := range counts {
		chi += (float64(n) - mean) * (float64(n) - mean) / mean
	}
	if chi > 250 { // 127 degrees of freedom; one run in a hundred million exceeds this.
		t.Errorf("chi-squared is %.0f: %v", chi, counts)
	}
}
