// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	mostOverMean = 1.15 // mostOverMean times the mean is the most for a replica.
	leastOfMean  = 0.5  // leastOfMean: a replica with less gets shards of others, since it is new.
)

// Candidate is an incarnation that may get shards.
type Candidate struct {
	Name   string
	Since  time.Time // Since when its Lease exists.
	Labels map[string]string
}

func (c Candidate) hasAll(labels map[string]string) bool {
	for key, value := range labels {
		if got, has := c.Labels[key]; !has || got != value {
			return false
		}
	}
	return true
}

// Pins are the labels that the replica of a shard should have. A shard without may have any replica.
type Pins map[int]map[string]string

// Assign returns the incarnation of each shard. current has the present ones, or ""; one that is no candidate has lost its
// shards. active is how many of the candidates may have shards, or 0 for all: those that have the most, then the newest, so that
// the replacement of one Pod after the other moves the shards once. If all pins ask for the same labels, candidates with these go
// before. The result depends on the arguments only, so that a new assigner continues where the old one stopped.
//
// A shard stays unless its incarnation may have none, has more than 1.15 times the mean, or a new one has less than half of
// it. Shard Once counts nowhere, and stays. Without candidates no shard has an incarnation. A shard with a pin has a candidate with
// its labels, however many shards that has; if there is none, the pin has no effect. Other shards make up for it.
func Assign(current []string, candidates []Candidate, pins Pins, active int) []string {
	if len(candidates) == 0 {
		return make([]string, len(current))
	}
	a := newAssignment(current, choose(current, candidates, pins, active), pins)
	for _, isPinned := range []bool{true, false} { // The shards that may be anywhere fill the gaps.
		for shard, name := range a.result {
			if name == "" && (len(a.pins[shard]) > 0) == isPinned {
				a.give(shard, a.fewest(shard))
			}
		}
	}
	a.balance()
	return a.result
}

func choose(current []string, candidates []Candidate, pins Pins, active int) []Candidate {
	if active == 0 || active >= len(candidates) {
		return candidates
	}
	common := pins.common()
	load := map[string]int{}
	for _, name := range current {
		load[name]++
	}
	lacks := func(c Candidate) int {
		if c.hasAll(common) {
			return 0
		}
		return 1
	}
	sorted := slices.SortedFunc(slices.Values(candidates), func(x, y Candidate) int {
		return cmp.Or(cmp.Compare(lacks(x), lacks(y)), cmp.Compare(load[y.Name], load[x.Name]), y.Since.Compare(x.Since), cmp.Compare(x.Name, y.Name))
	})
	return sorted[:active]
}

// common returns the labels that all pins ask for, or none.
func (p Pins) common() map[string]string {
	var first map[string]string
	for _, labels := range p {
		if first != nil && !maps.Equal(first, labels) {
			return nil
		}
		first = labels
	}
	return first
}

type assignment struct {
	candidates   []Candidate // sorted by name
	pins         Pins        // that a candidate meets
	result       []string
	load         map[string]int
	limit, floor int // the largest load, and the load up to which a new replica is filled
	least        float64
}

func newAssignment(current []string, candidates []Candidate, pins Pins) *assignment {
	mean := float64(max(0, len(current)-1)) / float64(len(candidates)) // without Once
	a := &assignment{
		candidates: slices.SortedFunc(slices.Values(candidates), func(x, y Candidate) int { return cmp.Compare(x.Name, y.Name) }),
		pins:       maps.Clone(pins), result: make([]string, len(current)), load: map[string]int{},
		limit: max(int(mostOverMean*mean), int(math.Ceil(mean))), floor: int(mean), least: leastOfMean * mean,
	}
	maps.DeleteFunc(a.pins, func(_ int, labels map[string]string) bool {
		return !slices.ContainsFunc(candidates, func(c Candidate) bool { return c.hasAll(labels) })
	})
	for shard, name := range current {
		if slices.ContainsFunc(candidates, func(c Candidate) bool { return c.Name == name && c.hasAll(a.pins[shard]) }) {
			a.give(shard, name)
		}
	}
	return a
}

func (a *assignment) give(shard int, to string) {
	if shard != Once {
		a.load[a.result[shard]]--
		a.load[to]++
	}
	a.result[shard] = to
}

// fewest has the fewest shards of those that may have this one.
func (a *assignment) fewest(shard int) string {
	best := ""
	for _, c := range a.candidates {
		if c.hasAll(a.pins[shard]) && (best == "" || a.load[c.Name] < a.load[best]) {
			best = c.Name
		}
	}
	return best
}

// balance moves shards from most to fewest, while one has more than the limit, or is new and not filled.
func (a *assignment) balance() {
	isNew := map[string]bool{}
	for _, c := range a.candidates {
		isNew[c.Name] = float64(a.load[c.Name]) < a.least
	}
	for shard, to := a.nextMove(isNew); shard >= 0; shard, to = a.nextMove(isNew) {
		a.give(shard, to)
	}
}

// nextMove returns which shard to move where; -1 for none.
func (a *assignment) nextMove(isNew map[string]bool) (shard int, to string) {
	byLoad := func(x, y Candidate) int { return cmp.Compare(a.load[x.Name], a.load[y.Name]) }
	up := slices.SortedStableFunc(slices.Values(a.candidates), byLoad)
	for _, few := range up {
		isUnfilled := isNew[few.Name] && a.load[few.Name] < a.floor
		for _, many := range slices.Backward(up) {
			if isOver := a.load[many.Name] > a.limit; a.load[many.Name]-a.load[few.Name] < 2 || !isOver && !isUnfilled {
				break // So has each that follows.
			}
			if shard = a.firstFor(few, many.Name); shard >= 0 {
				return shard, few.Name
			}
		}
	}
	return -1, ""
}

func (a *assignment) firstFor(to Candidate, from string) int {
	for shard, name := range a.result {
		if shard != Once && name == from && to.hasAll(a.pins[shard]) {
			return shard
		}
	}
	return -1
}
