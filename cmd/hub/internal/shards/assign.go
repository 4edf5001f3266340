// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
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
	for _, pinned := range []bool{true, false} { // The shards that may be anywhere fill the gaps.
		for shard, name := range a.result {
			if name == "" && (a.allowed[shard] != nil) == pinned {
				a.place(shard)
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
	candidates   []Candidate             // sorted by name
	allowed      map[int]map[string]bool // the names of the candidates with the labels of a pin, by shard
	result       []string
	load         map[string]int
	limit, floor int // the largest load, and the load up to which a new replica is filled
	least        float64
}

func newAssignment(current []string, candidates []Candidate, pins Pins) *assignment {
	mean := float64(max(0, len(current)-1)) / float64(len(candidates)) // without Once
	a := &assignment{
		candidates: slices.SortedFunc(slices.Values(candidates), func(x, y Candidate) int { return cmp.Compare(x.Name, y.Name) }),
		result:     slices.Clone(current), load: map[string]int{}, allowed: map[int]map[string]bool{},
		limit: max(int(mostOverMean*mean), int(math.Ceil(mean))), floor: int(mean), least: leastOfMean * mean,
	}
	for _, c := range candidates {
		a.load[c.Name] = 0
	}
	a.pin(pins)
	for shard, name := range a.result {
		if _, known := a.load[name]; known && a.may(shard, name) {
			a.count(shard, name)
		} else {
			a.result[shard] = ""
		}
	}
	return a
}

func (a *assignment) count(shard int, name string) {
	if shard != Once {
		a.load[name]++
	}
}

func (a *assignment) pin(pins Pins) {
	for shard, labels := range pins {
		with := map[string]bool{}
		for _, c := range a.candidates {
			if c.hasAll(labels) {
				with[c.Name] = true
			}
		}
		if len(labels) > 0 && len(with) > 0 {
			a.allowed[shard] = with
		}
	}
}

func (a *assignment) may(shard int, name string) bool {
	with := a.allowed[shard]
	return with == nil || with[name]
}

// place gives a homeless shard to the highest score below the limit. There is one for a shard without a pin, since all limits
// together are not less than the shards. If all candidates for a pin are at the limit, it goes to the one with the fewest.
func (a *assignment) place(shard int) {
	best, highest := "", uint64(0)
	fewest, least := "", math.MaxInt
	for _, c := range a.candidates {
		if !a.may(shard, c.Name) {
			continue
		}
		load := a.load[c.Name]
		if s := score(shard, c); load < a.limit && (best == "" || s > highest) {
			best, highest = c.Name, s
		}
		if load < least {
			fewest, least = c.Name, load
		}
	}
	best = cmp.Or(best, fewest)
	a.result[shard] = best
	a.count(shard, best)
}

// balance moves shards from most to fewest, while one has more than the limit, or is new and not filled.
func (a *assignment) balance() {
	isNew := map[string]bool{}
	for name, load := range a.load {
		isNew[name] = float64(load) < a.least
	}
	for {
		from, to, shard := a.nextMove(isNew)
		if shard < 0 {
			return
		}
		a.result[shard] = to
		a.load[from]--
		a.load[to]++
	}
}

// nextMove returns between which candidates to move, and the shard with the highest score for the second; -1 for none.
func (a *assignment) nextMove(isNew map[string]bool) (from, to string, shard int) {
	byLoad := func(x, y Candidate) int { return cmp.Compare(a.load[x.Name], a.load[y.Name]) }
	up := slices.SortedStableFunc(slices.Values(a.candidates), byLoad)
	for _, few := range up {
		isUnfilled := isNew[few.Name] && a.load[few.Name] < a.floor
		for _, many := range slices.Backward(up) {
			if isOver := a.load[many.Name] > a.limit; a.load[many.Name]-a.load[few.Name] < 2 || !isOver && !isUnfilled {
				break // So has each that follows.
			}
			if shard = a.bestFor(few, many.Name); shard >= 0 {
				return many.Name, few.Name, shard
			}
		}
	}
	return "", "", -1
}

func (a *assignment) bestFor(to Candidate, from string) int {
	best, highest := -1, uint64(0)
	for shard, name := range a.result {
		if shard == Once || name != from || !a.may(shard, to.Name) {
			continue
		}
		if s := score(shard, to); best < 0 || s > highest {
			best, highest = shard, s
		}
	}
	return best
}

// score is rendezvous hashing: the highest wins, and no third candidate changes two.
func score(shard int, c Candidate) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.Name + "/" + strconv.Itoa(shard)))
	return mix(h.Sum64())
}

// mix spreads differences of the last bytes, which FNV leaves in the low bits.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
