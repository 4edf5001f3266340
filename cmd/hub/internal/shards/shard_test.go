// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// The shard of a UID is the only one whose range an API server with sharded lists finds it in.
func TestOf_AgreesWithTheSelector(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 3, 4, 100, DefaultCount} {
		for range 100 {
			o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uuid.NewUUID()}}
			for shard := range count {
				start, end := Range(shard, count)
				selector := sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: start, End: end})
				if matches, err := selector.Matches(o); err != nil || matches != (shard == Of(o.UID, count)) {
					t.Fatalf("%s has shard %d of %d; shard %d matches: %t, %v", o.UID, Of(o.UID, count), count, shard, matches, err)
				}
			}
		}
	}
}

func TestRange_Ends(t *testing.T) {
	t.Parallel()
	if start, end := Range(0, DefaultCount); start != "0x0000000000000000" || end != "0x0200000000000000" {
		t.Errorf("shard 0 is from %s to %s", start, end)
	}
	if start, end := Range(127, DefaultCount); start != "0xfe00000000000000" || end != "0x10000000000000000" {
		t.Errorf("shard 127 is from %s to %s", start, end)
	}
}

// The shard of a UID must never change: another one would give a Cluster to two replicas during an upgrade.
func TestOf_IsStable(t *testing.T) {
	t.Parallel()
	for uid, want := range map[types.UID]int{
		"": 101, "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee": 73, "test-uid-12345": 106,
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
	counts := make([]int, DefaultCount)
	for range clusters {
		counts[Of(uuid.NewUUID(), DefaultCount)]++
	}
	const mean = float64(clusters) / DefaultCount
	chi := 0.0
	for _, n := range counts {
		chi += (float64(n) - mean) * (float64(n) - mean) / mean
	}
	if chi > 250 { // 127 degrees of freedom; one run in a hundred million exceeds this.
		t.Errorf("chi-squared is %.0f: %v", chi, counts)
	}
}
