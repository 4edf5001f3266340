// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// action is what happens to replicas.
type action struct {
	name string
	do   func(s *stage, victim *replica)
}

const (
	// cutFor and frozenFor are longer than all times of a Lease.
	cutFor, frozenFor = 15 * time.Second, time.Minute
	// longestGap is how long a Cluster may have no writer, the goal after a crash. The goal after an orderly end, 2 s, is
	// printed only.
	longestGap = 20 * time.Second
)

// actions are the faults and the changes of the set of replicas. After each of them the stage has between two and six.
func actions() []action {
	return []action{
		{name: "kill -9", do: func(s *stage, victim *replica) {
			victim.kill()
			s.start(victim.name)
		}},
		{name: "freeze", do: func(s *stage, victim *replica) {
			victim.freeze()
			s.frozen[victim.name]++
			pause(frozenFor)
			victim.thaw()
		}},
		{name: "roll", do: func(s *stage, _ *replica) {
			for _, name := range s.alive() {
				s.replicas[name].leave()
				s.start(name)
			}
		}},
		{name: "cut", do: func(s *stage, victim *replica) {
			must(s.t, s.proxies[victim.name].Set(fault.Blackhole()))
			pause(cutFor)
			must(s.t, s.proxies[victim.name].Set(fault.Pass()))
		}},
		{name: "drain", do: func(s *stage, victim *replica) {
			s.drain(victim.name, "true")
			rest := slices.DeleteFunc(s.alive(), func(name string) bool { return name == victim.name })
			s.expectWriters(rest...)
			eventually(s.t, func() error { // It sees the change of its own Lease at the next renewal.
				drained, err := victim.series("clusterfx_replicas_drained")
				if err == nil && len(drained) == 1 && drained[0].GetGauge().GetValue() != 1 { // It exports none while its Lease is late.
					err = fmt.Errorf("the drained replica counts %v drained replicas, want 1", drained[0].GetGauge().GetValue())
				}
				return err
			})
			s.drain(victim.name, nil)
		}},
		{name: "add two", do: func(s *stage, _ *replica) {
			for range 2 {
				s.added++
				s.start(fmt.Sprintf("r%d", s.added))
			}
		}},
		{name: "remove two", do: func(s *stage, victim *replica) {
			for _, one := range []*replica{victim, s.replicas[s.other(victim.name)]} {
				one.leave()
				delete(s.replicas, one.name)
			}
		}},
	}
}

// drain changes the key of the assignment that hub drain sets and hub drain --cancel removes.
func (s *stage) drain(name string, value any) {
	s.t.Helper()
	text, err := json.Marshal(map[string]any{"data": map[string]any{"drained." + name: value}})
	must(s.t, err)
	must(s.t, s.admin.Patch(s.t.Context(), s.assignment(), client.RawPatch(types.MergePatchType, text)))
}

func (s *stage) assignment() *corev1.ConfigMap {
	s.t.Helper()
	wish := &corev1.ConfigMap{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-assignment"}, wish))
	return wish
}

// pause lets a fault last.
func pause(d time.Duration) { <-time.After(d) }

func (s *stage) alive() []string { return slices.Sorted(maps.Keys(s.replicas)) }

// other returns the name of another replica.
func (s *stage) other(than string) string {
	for _, name := range s.alive() {
		if name != than {
			return name
		}
	}
	s.t.Fatal("there is no other replica")
	return ""
}

// assigner returns the replica that assigns, or any.
func (s *stage) assigner() *replica {
	s.t.Helper()
	return s.orAny(podOf(s.assignment().Data["assigner"]))
}

// runsOnce returns the replica with what runs once, which is the one that is active if only one may be, or any.
func (s *stage) runsOnce() *replica {
	s.t.Helper()
	holders, err := s.holders()
	must(s.t, err)
	return s.orAny(holders[once])
}

func (s *stage) orAny(name string) *replica {
	if one := s.replicas[name]; one != nil {
		return one
	}
	return s.replicas[s.alive()[0]]
}

// rounds is how often each action is in a plan.
var rounds = flag.Int("rounds", 10, "TestSharding_RandomActions: how often each action happens")

// plan returns the actions in a random order, each as often as the others, and each permitted at its place.
func plan(random *rand.Rand, times int) []action {
	var all []action
	for range times {
		round := actions()
		random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		add, remove := index(round, "add two"), index(round, "remove two")
		if remove < add { // Never fewer than two.
			round[add], round[remove] = round[remove], round[add]
		}
		all = append(all, round...)
	}
	return all
}

func index(all []action, name string) int {
	return slices.IndexFunc(all, func(a action) bool { return a.name == name })
}

// Whatever happens to the replicas, no write of an earlier permission follows one of a later permission, and each Cluster has a
// writer soon: if all replicas run Clusters, and if one does.
func TestSharding_RandomActions(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/shards TestModel_AllRules")
	t.Parallel()
	for _, active := range []int{0, 1} { // One after the other: each has up to six hubs.
		t.Run(fmt.Sprintf("active=%d", active), func(t *testing.T) { testRandomActions(t, active) })
	}
}

func testRandomActions(t *testing.T, active int) {
	t.Helper()
	const clusters = 60
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStage(t, clusters)
	s.active = active
	s.startAll("a", "b", "c")
	began := time.Now()
	gaps := map[string][]time.Duration{} // by action
	for i, one := range plan(random, *rounds) {
		gaps[one.name] = append(gaps[one.name], s.act(i, one, random))
	}
	s.expectReady()
	for name, all := range gaps {
		slices.Sort(all)
		t.Logf("%s: %d times, the longest time of a Cluster without a write %s at most, median %s", name, len(all), all[len(all)-1], all[len(all)/2])
	}
	v := s.judge(began)
	late := map[[2]string]int{}
	for _, one := range v.late {
		by := [2]string{one.replica, one.cluster}
		if late[by]++; late[by] > s.frozen[one.replica] {
			t.Errorf("%s, and not one that was sent before a freeze", one)
		}
	}
	t.Logf("%d writes, %d hand-overs, %d late writes, each sent before its process was frozen: %v", v.writes, v.handovers, len(v.late), v.late)
}

// act carries out one action, a third of them on the assigner and a third on the replica with what runs once, and waits until all
// replicas write that may. It returns the longest time of a Cluster without a write.
func (s *stage) act(i int, one action, random *rand.Rand) (longest time.Duration) {
	s.t.Helper()
	victim := s.replicas[s.alive()[random.IntN(len(s.replicas))]]
	switch i % 3 {
	case 0:
		victim = s.assigner()
	case 1:
		victim = s.runsOnce()
	}
	began := time.Now()
	one.do(s, victim)
	s.expectWriters(s.alive()...)
	v := s.judge(began.Add(-time.Second))
	for _, gap := range v.gaps {
		longest = max(longest, gap)
	}
	s.t.Logf("%s (%s): settled after %s, the longest time without a write %s", one.name, victim.name, time.Since(began), longest)
	if longest > longestGap {
		s.t.Errorf("%s: a Cluster had no writer for %s", one.name, longest)
	}
	return longest
}
