// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// candidates returns candidates with these numbers.
func candidates(numbers ...int) (all []Candidate) {
	for _, n := range numbers {
		all = append(all, Candidate{Name: "hub-" + strconv.Itoa(n)})
	}
	return all
}

func countMoves(before, after []string) (moves int) {
	for shard := range before {
		if before[shard] != after[shard] {
			moves++
		}
	}
	return moves
}

func loads(names []string) map[string]int {
	load := map[string]int{}
	for _, name := range names {
		load[name]++
	}
	return load
}

// Random replicas join and leave. Each change moves about 1/N of the shards and at most 6 percent more, no replica has
// more than 1.15 times the mean (or the mean, rounded up), and no change moves nothing.
func TestAssign_Changes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	numbers, next := []int{0, 1, 2}, 3
	current := Assign(make([]string, DefaultCount), candidates(numbers...))
	worst := 0.0
	for range 1000 {
		var share float64 // of the replica that joins or leaves
		if len(numbers) == 2 || len(numbers) < 10 && rng.IntN(2) == 0 {
			numbers, next = append(numbers, next), next+1
			share = 1 / float64(len(numbers))
		} else {
			i := rng.IntN(len(numbers))
			share = float64(loads(current)[candidates(numbers[i])[0].Name]) / DefaultCount
			numbers = slices.Delete(numbers, i, i+1)
		}
		after := Assign(current, candidates(numbers...))
		beyond := float64(countMoves(current, after))/DefaultCount - share
		worst = max(worst, beyond)
		if beyond > 0.06 {
			t.Fatalf("%d replicas: %d shards move, %.3f of all more than a share", len(numbers), countMoves(current, after), beyond)
		}
		mean := float64(DefaultCount) / float64(len(numbers))
		limit := max(int(1.15*mean), (DefaultCount+len(numbers)-1)/len(numbers))
		for name, load := range loads(after) {
			if load > limit || name == "" {
				t.Fatalf("%d replicas: %q has %d shards", len(numbers), name, load)
			}
		}
		if again := Assign(after, candidates(numbers...)); !slices.Equal(after, again) {
			t.Fatalf("%d shards move without a change", countMoves(after, again))
		}
		current = after
	}
	t.Logf("at most %.3f of all shards moved beyond the share of the replica", worst)
}

// The weight of a replica changes the place of homeless shards only.
func TestAssign_Weights(t *testing.T) {
	t.Parallel()
	even := candidates(1, 2, 3, 4)
	current := Assign(make([]string, DefaultCount), even)
	heavy := slices.Clone(even)
	heavy[0].Weight = 5
	if after := Assign(current, heavy); !slices.Equal(current, after) {
		t.Errorf("%d shards move because of a weight", countMoves(current, after))
	}
	homeless := slices.Clone(current)
	var lost []int
	for shard, name := range current {
		if name == even[3].Name {
			homeless[shard] = ""
			lost = append(lost, shard)
		}
	}
	count := func(c []Candidate) (n int) {
		after := Assign(homeless, c)
		for _, shard := range lost {
			if after[shard] == even[0].Name {
				n++
			}
		}
		return n
	}
	if light, more := count(even[:3]), count(heavy[:3]); more <= light {
		t.Errorf("a replica with weight 5 gets %d homeless shards, and %d with weight 1", more, light)
	}
}

func TestAssign_Few(t *testing.T) {
	t.Parallel()
	if got := Assign([]string{"hub-1", ""}, nil); !slices.Equal(got, []string{"", ""}) {
		t.Errorf("without candidates: %q", got)
	}
	many := make([]int, 200)
	for i := range many {
		many[i] = i
	}
	for name, load := range loads(Assign(make([]string, DefaultCount), candidates(many...))) {
		if name == "" || load > 1 {
			t.Errorf("%q has %d shards", name, load)
		}
	}
	current := []string{"gone", "hub-1", "hub-1", "hub-1"}
	if got := Assign(current, candidates(1)); !slices.Equal(got, []string{"hub-1", "hub-1", "hub-1", "hub-1"}) {
		t.Errorf("one candidate: %q", got)
	}
	if current[0] != "gone" {
		t.Error("Assign changes its argument")
	}
}

// Two leaders with the same knowledge assign alike, in whichever order they list the candidates.
func TestAssign_OrderOfCandidates(t *testing.T) {
	t.Parallel()
	a := Assign(make([]string, DefaultCount), candidates(1, 2, 3))
	if b := Assign(make([]string, DefaultCount), candidates(3, 1, 2)); !slices.Equal(a, b) {
		t.Errorf("%d shards depend on the order", countMoves(a, b))
	}
}

// A replica that is no candidate although it is live, because it is drained, keeps no shard, and no shard moves between the
// others. When it is a candidate again, it is filled like a new one.
func TestAssign_Drained(t *testing.T) {
	t.Parallel()
	all := candidates(1, 2, 3)
	before := Assign(make([]string, DefaultCount), all)
	drained := Assign(before, all[1:])
	for shard, name := range drained {
		if name == all[0].Name || before[shard] != all[0].Name && name != before[shard] {
			t.Errorf("shard %d of %s goes to %q", shard, before[shard], name)
		}
	}
	after := loads(Assign(drained, all))
	if mean := DefaultCount / len(all); after[all[0].Name] != mean {
		t.Errorf("the replica gets %d shards, want the mean %d", after[all[0].Name], mean)
	}
}
