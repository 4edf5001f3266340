// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// pairCount is how many pairs are in different replicas.
var pairCount = flag.Int("pairs", 200, "TestSharding_Pairs: the number of pairs")

// bothAtWork is how long two Clusters that are one cluster may work at the same time.
const bothAtWork = 2 * time.Second

// Two Clusters for one cluster, registered at the same moment, in shards of different replicas: the older one works in the end,
// and both at the same time no longer than two seconds.
func TestSharding_Pairs(t *testing.T) {
	fleettest.Slow(t, "./reconcilers/cluster TestShare_Rivals")
	t.Parallel()
	s := newStage(t, 0)
	s.unique = true
	s.startAll("a", "b")
	pairs := *pairCount
	apart, longest := 0, time.Duration(0)
	for i := 0; apart < pairs; i++ {
		began := time.Now()
		names := [2]string{fmt.Sprintf("x%d", i), fmt.Sprintf("y%d", i)}
		holders, older := s.registerPair(names)
		took := s.expectOneAtWork(names, older)
		if holders[0] != holders[1] {
			apart++
			longest = max(longest, s.together(names, began))
		}
		t.Logf("pair %d with %v: one works after %s", i, holders, took)
		for _, name := range names {
			s.remove(name)
		}
		eventually(t, func() error {
			if s.exists(names[0]) || s.exists(names[1]) {
				return errors.New("a Cluster that was deleted is not gone")
			}
			return nil
		})
	}
	t.Logf("%d pairs, both at work for %s at most", apart, longest)
	if longest > bothAtWork {
		t.Errorf("two Clusters that are one cluster have worked at the same time for %s, want %s at most", longest, bothAtWork)
	}
}

// registerPair registers one remote under two names at once. It returns the replicas that have their shards, and the older one.
func (s *stage) registerPair(names [2]string) (holders [2]string, older string) {
	s.t.Helper()
	var group errgroup.Group
	for _, name := range names {
		group.Go(func() error { return s.register(name, s.remotes[0].Kubeconfig()) })
	}
	must(s.t, group.Wait())
	of, err := s.holders()
	must(s.t, err)
	first, second := s.cluster(names[0]), s.cluster(names[1])
	holders = [2]string{of[shardOf(first.UID)], of[shardOf(second.UID)]}
	if second.CreationTimestamp.Before(&first.CreationTimestamp) {
		return holders, names[1]
	}
	return holders, names[0]
}

// expectOneAtWork waits until the older one of two Clusters is Ready and the other one is a duplicate, and returns how long that
// took.
func (s *stage) expectOneAtWork(names [2]string, older string) time.Duration {
	s.t.Helper()
	return eventually(s.t, func() error {
		for _, name := range names {
			c := meta.FindStatusCondition(s.cluster(name).Status.Conditions, hubv1.ConditionReady)
			want := hubv1.ReasonDuplicateRegistration
			if name == older {
				want = hubv1.ReasonReady
			}
			if c == nil || c.Reason != want {
				return fmt.Errorf("%s is %+v, want %s", name, c, want)
			}
		}
		return nil
	})
}

// together returns how long both of two Clusters were written in the same time.
func (s *stage) together(names [2]string, since time.Time) time.Duration {
	s.t.Helper()
	all := s.writes(since)
	first, second := all[names[0]], all[names[1]]
	if len(first) == 0 || len(second) == 0 {
		return 0
	}
	began, ended := first[0].at, first[len(first)-1].at
	if second[0].at.After(began) {
		began = second[0].at
	}
	if last := second[len(second)-1].at; last.Before(ended) {
		ended = last
	}
	return max(0, ended.Sub(began))
}
