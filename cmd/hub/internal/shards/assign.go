// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
)

const (
	// mostOverMean is how many times the mean number of shards a replica may have.
	mostOverMean = 1.15
	// leastOfMean is the part of the mean below which a replica gets shards of others: it is new.
	leastOfMean = 0.5
)

// Candidate is a replica that may get shards.
type Candidate struct {
	// Name is the name of the replica, unique in the installation.
	Name string
	// Weight is the share of the homeless shards that the replica gets, relative to other replicas. Zero counts as 1.
	Weight float64
}

// Assign returns the replica of each shard. Current has the replica that each shard has now, or an empty string; a
// replica that is no candidate has lost its shards. The result depends on the arguments only, so that a new leader
// continues where the old leader stopped.
//
// A shard stays where it is, unless its replica is no candidate, has more than 1.15 times the mean, or a new replica
// has less than half of the mean. Without candidates no shard has a replica.
func Assign(current []string, candidates []Candidate) []string {
	if len(candidates) == 0 {
		return make([]string, len(current))
	}
	a := newAssignment(current, candidates)
	for shard, name := range a.result {
		if name == "" {
			a.place(shard)
		}
	}
	a.balance()
	return a.result
}

// assignment is an assignment in the making.
type assignment struct {
	candidates   []Candidate // sorted by name
	result       []string
	load         map[string]int
	limit, floor int // the largest load, and the load up to which a new replica is filled
	least        float64
}

func newAssignment(current []string, candidates []Candidate) *assignment {
	mean := float64(len(current)) / float64(len(candidates))
	a := &assignment{
		candidates: slices.SortedFunc(slices.Values(candidates), func(x, y Candidate) int { return cmp.Compare(x.Name, y.Name) }),
		result:     slices.Clone(current), load: map[string]int{},
		limit: max(int(mostOverMean*mean), int(math.Ceil(mean))), floor: int(mean), least: leastOfMean * mean,
	}
	for _, c := range candidates {
		a.load[c.Name] = 0
	}
	for shard, name := range a.result {
		if _, known := a.load[name]; known {
			a.load[name]++
		} else {
			a.result[shard] = ""
		}
	}
	return a
}

// place gives a homeless shard to the candidate with the highest score among those below the limit. There is one, since
// the limits of all candidates together are not less than the number of shards.
func (a *assignment) place(shard int) {
	best, highest := "", math.Inf(-1)
	for _, c := range a.candidates {
		if s := score(shard, c); a.load[c.Name] < a.limit && s > highest {
			best, highest = c.Name, s
		}
	}
	a.result[shard] = best
	a.load[best]++
}

// balance moves shards from the candidate with the most to the candidate with the fewest, while a candidate has more than
// the limit, or is new and not filled.
func (a *assignment) balance() {
	isNew := map[string]bool{}
	for name, load := range a.load {
		isNew[name] = float64(load) < a.least
	}
	for {
		most, fewest := a.extremes()
		overloaded := a.load[most.Name] > a.limit
		if unfilled := isNew[fewest.Name] && a.load[fewest.Name] < a.floor; !overloaded && !unfilled {
			return
		}
		a.move(most, fewest)
	}
}

// extremes returns the candidates with the most and with the fewest shards.
func (a *assignment) extremes() (most, fewest Candidate) {
	byLoad := func(x, y Candidate) int { return cmp.Compare(a.load[x.Name], a.load[y.Name]) }
	return slices.MaxFunc(a.candidates, byLoad), slices.MinFunc(a.candidates, byLoad)
}

// move gives one shard of from to the candidate to: the shard for which its score is the highest.
func (a *assignment) move(from, to Candidate) {
	best, highest := 0, math.Inf(-1)
	for shard, name := range a.result {
		if s := score(shard, to); name == from.Name && s > highest {
			best, highest = shard, s
		}
	}
	a.result[best] = to.Name
	a.load[from.Name]--
	a.load[to.Name]++
}

// score is the score of weighted rendezvous hashing: the candidate with the highest score wins a shard, with a
// probability in proportion to its weight, and the scores of two candidates do not depend on a third.
func score(shard int, c Candidate) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.Name + "/" + strconv.Itoa(shard)))
	uniform := (float64(mix(h.Sum64())>>11) + 0.5) / (1 << 53)
	weight := c.Weight
	if weight <= 0 {
		weight = 1
	}
	return -weight / math.Log(uniform)
}

// mix spreads the differences of the last bytes, which FNV leaves in the low bits, over all bits.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
