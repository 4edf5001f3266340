// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

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
	current := Assign(make([]string, DefaultCount), candidates(numbers...), nil)
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
		after := Assign(current, candidates(numbers...), nil)
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
		if again := Assign(after, candidates(numbers...), nil); !slices.Equal(after, again) {
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
	current := Assign(make([]string, DefaultCount), even, nil)
	heavy := slices.Clone(even)
	heavy[0].Weight = 5
	if after := Assign(current, heavy, nil); !slices.Equal(current, after) {
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
		after := Assign(homeless, c, nil)
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
	if got := Assign([]string{"hub-1", ""}, nil, nil); !slices.Equal(got, []string{"", ""}) {
		t.Errorf("without candidates: %q", got)
	}
	many := make([]int, 200)
	for i := range many {
		many[i] = i
	}
	for name, load := range loads(Assign(make([]string, DefaultCount), candidates(many...), nil)) {
		if name == "" || load > 1 {
			t.Errorf("%q has %d shards", name, load)
		}
	}
	current := []string{"gone", "hub-1", "hub-1", "hub-1"}
	if got := Assign(current, candidates(1), nil); !slices.Equal(got, []string{"hub-1", "hub-1", "hub-1", "hub-1"}) {
		t.Errorf("one candidate: %q", got)
	}
	if current[0] != "gone" {
		t.Error("Assign changes its argument")
	}
}

// Two leaders with the same knowledge assign alike, in whichever order they list the candidates.
func TestAssign_OrderOfCandidates(t *testing.T) {
	t.Parallel()
	a := Assign(make([]string, DefaultCount), candidates(1, 2, 3), nil)
	if b := Assign(make([]string, DefaultCount), candidates(3, 1, 2), nil); !slices.Equal(a, b) {
		t.Errorf("%d shards depend on the order", countMoves(a, b))
	}
}

// A replica that is no candidate although it is live, because it is drained, keeps no shard, and no shard moves between the
// others. When it is a candidate again, it is filled like a new one.
func TestAssign_Drained(t *testing.T) {
	t.Parallel()
	all := candidates(1, 2, 3)
	before := Assign(make([]string, DefaultCount), all, nil)
	drained := Assign(before, all[1:], nil)
	for shard, name := range drained {
		if name == all[0].Name || before[shard] != all[0].Name && name != before[shard] {
			t.Errorf("shard %d of %s goes to %q", shard, before[shard], name)
		}
	}
	after := loads(Assign(drained, all, nil))
	if mean := DefaultCount / len(all); after[all[0].Name] != mean {
		t.Errorf("the replica gets %d shards, want the mean %d", after[all[0].Name], mean)
	}
}

// in gives candidates a label with their place.
func in(all []Candidate, places ...string) []Candidate {
	for i, place := range places {
		all[i].Labels = map[string]string{"place": place, "number": strconv.Itoa(i)}
	}
	return all
}

func pinTo(place string, shards int) Pins {
	pins := Pins{}
	for shard := range shards {
		pins[shard*3%DefaultCount] = map[string]string{"place": place}
	}
	return pins
}

// A shard with a pin moves to a candidate with the labels, and stays there when others join and leave. The other shards make up
// for it, and do not move more than they need to.
func TestAssign_Pins(t *testing.T) {
	t.Parallel()
	all := in(candidates(1, 2, 3, 4), "north", "south", "south", "")
	before := Assign(make([]string, DefaultCount), all, nil)
	for _, c := range []struct {
		place  string
		shards int
		at     []string
		most   int // of the shards that one of at may have then
	}{
		{"north", 1, []string{all[0].Name}, 36},
		{"north", 30, []string{all[0].Name}, 36},
		{"north", 60, []string{all[0].Name}, 60},
		{"south", 40, []string{all[1].Name, all[2].Name}, 36},
		{"south", DefaultCount, []string{all[1].Name, all[2].Name}, 64},
	} {
		pins := pinTo(c.place, c.shards)
		after := Assign(before, all, pins)
		for shard, name := range after {
			if pins[shard] != nil && !slices.Contains(c.at, name) {
				t.Errorf("%d pins to %s: shard %d has %q", c.shards, c.place, shard, name)
			}
			if pins[shard] != nil && slices.Contains(c.at, before[shard]) && name != before[shard] && c.shards < 40 {
				t.Errorf("%d pins to %s: shard %d moves from %s to %s", c.shards, c.place, shard, before[shard], name)
			}
		}
		for name, load := range loads(after) {
			if limit := 36; load > limit && (load > c.most || !slices.Contains(c.at, name)) || name == "" {
				t.Errorf("%d pins to %s: %q has %d shards", c.shards, c.place, name, load)
			}
		}
		if moves := countMoves(before, after); moves > 2*c.shards+7 {
			t.Errorf("%d pins to %s: %d shards move", c.shards, c.place, moves)
		}
		if again := Assign(after, all, pins); !slices.Equal(after, again) {
			t.Errorf("%d pins to %s: %d shards move without a change", c.shards, c.place, countMoves(after, again))
		}
	}
}

// A pin has no effect while no candidate has its labels, and takes effect when one has them.
func TestAssign_UnmetPins(t *testing.T) {
	t.Parallel()
	all := in(candidates(1, 2, 3), "north", "south", "south")
	before := Assign(make([]string, DefaultCount), all[1:], nil)
	pins := pinTo("north", 20)
	if after := Assign(before, all[1:], pins); !slices.Equal(before, after) {
		t.Errorf("%d shards move because of pins that no candidate meets", countMoves(before, after))
	}
	for shard := range pins {
		pins[shard] = map[string]string{"place": "north", "number": "1"} // No candidate has both.
	}
	if after := Assign(before, all, pins); loads(after)[all[0].Name] != DefaultCount/3 {
		t.Errorf("a new replica has %d shards", loads(after)[all[0].Name])
	}
	after := Assign(before, all, pinTo("north", 20))
	for shard := range pins {
		if after[shard] != all[0].Name {
			t.Errorf("shard %d has %s", shard, after[shard])
		}
	}
}

// Random pins and replicas: each pin that can be met is met, no assignment changes without a change, and Assign ends.
func TestAssign_RandomPins(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	places := []string{"north", "south", "east", ""}
	current := make([]string, DefaultCount)
	for range 300 {
		all := candidates(rng.Perm(8)[:1+rng.IntN(8)]...)
		for i := range all {
			all[i].Labels = map[string]string{"place": places[rng.IntN(len(places))]}
		}
		pins := Pins{}
		for range rng.IntN(2 * DefaultCount) {
			pins[rng.IntN(DefaultCount)] = map[string]string{"place": places[rng.IntN(len(places))]}
		}
		current = Assign(current, all, pins)
		at := map[string][]string{}
		for _, c := range all {
			at[c.Labels["place"]] = append(at[c.Labels["place"]], c.Name)
		}
		for shard, labels := range pins {
			if names := at[labels["place"]]; len(names) > 0 && !slices.Contains(names, current[shard]) {
				t.Fatalf("shard %d is pinned to %v and has %s", shard, names, current[shard])
			}
		}
		if again := Assign(current, all, pins); !slices.Equal(current, again) {
			t.Fatalf("%d shards move without a change", countMoves(current, again))
		}
	}
}
