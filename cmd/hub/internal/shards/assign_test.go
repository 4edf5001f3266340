// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

const many = 128 // shards with Clusters

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

// loads has the shards with Clusters of each name.
func loads(names []string) map[string]int {
	load := map[string]int{}
	for _, name := range names[1:] {
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
	current := Assign(make([]string, many+1), candidates(numbers...), nil, 0)
	worst := 0.0
	for range 1000 {
		var share float64 // of the replica that joins or leaves
		if len(numbers) == 2 || len(numbers) < 10 && rng.IntN(2) == 0 {
			numbers, next = append(numbers, next), next+1
			share = 1 / float64(len(numbers))
		} else {
			i := rng.IntN(len(numbers))
			share = float64(loads(current)[candidates(numbers[i])[0].Name]) / many
			numbers = slices.Delete(numbers, i, i+1)
		}
		after := Assign(current, candidates(numbers...), nil, 0)
		beyond := float64(countMoves(current, after))/many - share
		worst = max(worst, beyond)
		if beyond > 0.06 {
			t.Fatalf("%d replicas: %d shards move, %.3f of all more than a share", len(numbers), countMoves(current, after), beyond)
		}
		mean := float64(many) / float64(len(numbers))
		limit := max(int(1.15*mean), (many+len(numbers)-1)/len(numbers))
		for name, load := range loads(after) {
			if load > limit || name == "" {
				t.Fatalf("%d replicas: %q has %d shards", len(numbers), name, load)
			}
		}
		if again := Assign(after, candidates(numbers...), nil, 0); !slices.Equal(after, again) {
			t.Fatalf("%d shards move without a change", countMoves(after, again))
		}
		current = after
	}
	t.Logf("at most %.3f of all shards moved beyond the share of the replica", worst)
}

func TestAssign_Few(t *testing.T) {
	t.Parallel()
	if got := Assign([]string{"hub-1", ""}, nil, nil, 0); !slices.Equal(got, []string{"", ""}) {
		t.Errorf("without candidates: %q", got)
	}
	replicas := make([]int, 200)
	for i := range replicas {
		replicas[i] = i
	}
	for name, load := range loads(Assign(make([]string, many+1), candidates(replicas...), nil, 0)) {
		if name == "" || load > 1 {
			t.Errorf("%q has %d shards", name, load)
		}
	}
	current := []string{"gone", "hub-1", "hub-1", "hub-1"}
	if got := Assign(current, candidates(1), nil, 0); !slices.Equal(got, []string{"hub-1", "hub-1", "hub-1", "hub-1"}) {
		t.Errorf("one candidate: %q", got)
	}
	if current[0] != "gone" {
		t.Error("Assign changes its argument")
	}
}

// Two assigners with the same knowledge assign alike, in whichever order they list the candidates.
func TestAssign_OrderOfCandidates(t *testing.T) {
	t.Parallel()
	a := Assign(make([]string, many+1), candidates(1, 2, 3), nil, 0)
	if b := Assign(make([]string, many+1), candidates(3, 1, 2), nil, 0); !slices.Equal(a, b) {
		t.Errorf("%d shards depend on the order", countMoves(a, b))
	}
}

// A replica that is no candidate although it is live, because it is drained, keeps no shard, and no shard moves between the
// others. When it is a candidate again, it is filled like a new one.
func TestAssign_Drained(t *testing.T) {
	t.Parallel()
	all := candidates(1, 2, 3)
	before := Assign(make([]string, many+1), all, nil, 0)
	drained := Assign(before, all[1:], nil, 0)
	for shard, name := range drained {
		if name == all[0].Name || before[shard] != all[0].Name && name != before[shard] {
			t.Errorf("shard %d of %s goes to %q", shard, before[shard], name)
		}
	}
	after := loads(Assign(drained, all, nil, 0))
	if mean := many / len(all); after[all[0].Name] != mean {
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
		pins[shard*3%many] = map[string]string{"place": place}
	}
	return pins
}

// A shard with a pin moves to a candidate with the labels, and stays there when others join and leave. The other shards make up
// for it, and do not move more than they need to.
func TestAssign_Pins(t *testing.T) {
	t.Parallel()
	all := in(candidates(1, 2, 3, 4), "north", "south", "south", "")
	before := Assign(make([]string, many+1), all, nil, 0)
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
		{"south", many, []string{all[1].Name, all[2].Name}, 64},
	} {
		pins := pinTo(c.place, c.shards)
		after := Assign(before, all, pins, 0)
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
		if again := Assign(after, all, pins, 0); !slices.Equal(after, again) {
			t.Errorf("%d pins to %s: %d shards move without a change", c.shards, c.place, countMoves(after, again))
		}
	}
}

// A pin has no effect while no candidate has its labels, and takes effect when one has them.
func TestAssign_UnmetPins(t *testing.T) {
	t.Parallel()
	all := in(candidates(1, 2, 3), "north", "south", "south")
	before := Assign(make([]string, many+1), all[1:], nil, 0)
	pins := pinTo("north", 20)
	if after := Assign(before, all[1:], pins, 0); !slices.Equal(before, after) {
		t.Errorf("%d shards move because of pins that no candidate meets", countMoves(before, after))
	}
	for shard := range pins {
		pins[shard] = map[string]string{"place": "north", "number": "1"} // No candidate has both.
	}
	if after := Assign(before, all, pins, 0); loads(after)[all[0].Name] != many/3 {
		t.Errorf("a new replica has %d shards", loads(after)[all[0].Name])
	}
	after := Assign(before, all, pinTo("north", 20), 0)
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
	current := make([]string, many)
	for range 300 {
		all := candidates(rng.Perm(8)[:1+rng.IntN(8)]...)
		for i := range all {
			all[i].Labels = map[string]string{"place": places[rng.IntN(len(places))]}
		}
		pins := Pins{}
		for range rng.IntN(2 * many) {
			pins[rng.IntN(many)] = map[string]string{"place": places[rng.IntN(len(places))]}
		}
		current = Assign(current, all, pins, 0)
		at := map[string][]string{}
		for _, c := range all {
			at[c.Labels["place"]] = append(at[c.Labels["place"]], c.Name)
		}
		for shard, labels := range pins {
			if names := at[labels["place"]]; len(names) > 0 && !slices.Contains(names, current[shard]) {
				t.Fatalf("shard %d is pinned to %v and has %s", shard, names, current[shard])
			}
		}
		if again := Assign(current, all, pins, 0); !slices.Equal(current, again) {
			t.Fatalf("%d shards move without a change", countMoves(current, again))
		}
	}
}

// aged gives candidates Leases of different ages: the last one is the newest.
func aged(all []Candidate) []Candidate {
	for i := range all {
		all[i].Since = time.Unix(int64(i), 0)
	}
	return all
}

// With a limit of active replicas, those that have the most shards keep them, then the newest gets them. What runs once is in one
// of them.
func TestAssign_Active(t *testing.T) {
	t.Parallel()
	all := aged(candidates(1, 2, 3))
	none := make([]string, many+1)
	first := Assign(none, all, nil, 1)
	if first[Once] != "hub-3" || loads(first)["hub-3"] != many {
		t.Errorf("of three new replicas, the newest is not active: %v", loads(first))
	}
	if again := Assign(first, append(aged(candidates(1, 2, 3, 4)), all[2]), nil, 1); !slices.Equal(first, again) {
		t.Errorf("%d shards move to a newer replica", countMoves(first, again))
	}
	two := Assign(first, all, nil, 2)
	if load := loads(two); load["hub-3"] != many/2 || load["hub-2"] != many/2 || two[Once] != "hub-3" {
		t.Errorf("a second active replica: %v, once in %s", load, two[Once])
	}
	every := Assign(two, all, nil, 0)
	if len(loads(every)) != 3 || every[Once] != "hub-3" {
		t.Errorf("all are active: %v", loads(every))
	}
	back := Assign(every, all, nil, 1)
	if len(loads(back)) != 1 || back[Once] != back[1] {
		t.Errorf("back to one: %v, once in %s", loads(back), back[Once])
	}
}

// Pins choose which replica is active if all of them agree.
func TestAssign_ActivePins(t *testing.T) {
	t.Parallel()
	all := in(candidates(1, 2), "north", "south")
	current := Assign(make([]string, many+1), all, nil, 1)
	for _, place := range []string{"north", "south", "west"} {
		got := Assign(current, all, pinTo(place, 3), 1)
		want := map[string]string{"north": "hub-1", "south": "hub-2", "west": current[1]}[place]
		if loads(got)[want] != many {
			t.Errorf("pins to %s: %v, want all in %s", place, loads(got), want)
		}
	}
	pins := pinTo("north", 3)
	pins[5] = map[string]string{"place": "south"}
	if got := Assign(current, all, pins, 1); !slices.Equal(got, current) {
		t.Errorf("pins that do not agree move %d shards", countMoves(current, got))
	}
}
