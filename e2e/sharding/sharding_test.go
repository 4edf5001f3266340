// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// expectWriters waits until these replicas have all shards, each of them some, and each Cluster is written by the replica that
// has its shard. By chance a replica has shards without a Cluster.
func (s *stage) expectWriters(names ...string) {
	s.t.Helper()
	began := time.Now()
	eventually(s.t, func() error {
		since := time.Now().Add(-2 * time.Second)
		if since.Before(began) {
			since = began // What a process wrote before it was killed does not count.
		}
		holders, err := s.holders()
		if err != nil {
			return err
		}
		has := map[string]int{}
		for _, holder := range holders {
			has[holder]++
		}
		for _, name := range names {
			if has[name] == 0 {
				return fmt.Errorf("%s has no shard: %v", name, has)
			}
		}
		if len(has) != len(names) {
			return fmt.Errorf("the shards are with %v, want %v", has, names)
		}
		v := s.judge(since)
		for _, name := range s.names {
			if holder := holders[shardOf(s.cluster(name).UID)]; v.last[name] != holder {
				return fmt.Errorf("%s is written by %q, and its shard is with %q", name, v.last[name], holder)
			}
		}
		return nil
	})
}

// holders returns the replicas in the records of the shards; a shard without one has the empty name.
func (s *stage) holders() (map[int]string, error) {
	var all coordinationv1.LeaseList
	err := s.admin.List(s.t.Context(), &all, client.InNamespace(hubv1.DefaultNamespace), client.MatchingLabels{"clusterfx.dev/sharding": "record"})
	holders := map[int]string{}
	for _, one := range all.Items {
		number, err := strconv.Atoi(strings.TrimPrefix(one.Name, "clusterfx-shard-"))
		if err != nil {
			return nil, err
		}
		holder := ""
		if one.Spec.HolderIdentity != nil {
			holder, _, _ = strings.Cut(*one.Spec.HolderIdentity, "/")
		}
		holders[number] = holder
	}
	return holders, err
}

// expectOneWriter fails the test if a write of an earlier permission came after one of a later permission.
func (s *stage) expectOneWriter(v verdict) {
	s.t.Helper()
	for _, late := range v.late {
		s.t.Error(late)
	}
}

// Replicas share the Clusters; one more gets its part, and one that leaves hands over its part, without two writers and without
// a gap. A Cluster that is deleted meanwhile is removed by the replica that has it.
func TestSharding_JoinAndLeave(t *testing.T) {
	t.Parallel()
	s := newStage(t, 12)
	s.startAll("a", "b")
	joined := time.Now()
	s.start("c")
	s.expectWriters("a", "b", "c")
	t.Logf("c writes after %s", time.Since(joined))
	s.remove(s.names[0])
	s.names = s.names[1:]
	eventually(t, func() error {
		if s.exists("c00") {
			return errors.New("the Cluster that was deleted is not gone")
		}
		return nil
	})
	left := time.Now()
	s.replicas["a"].leave()
	took := time.Since(left)
	s.expectWriters("b", "c")
	v := s.judge(joined)
	s.expectOneWriter(v)
	t.Logf("a has left after %s; %d writes, %d hand-overs, the longest gaps %v", took, v.writes, v.handovers, v.gaps)
}

// A replica that is killed loses its Clusters to the others within 20 s, and one that was frozen meanwhile writes nothing when it
// resumes.
func TestSharding_KillAndFreeze(t *testing.T) {
	t.Parallel()
	if !everything() {
		t.Skip("TestSharding_RandomActions does the same; CLUSTERFX_FAULTS=all runs this test, too")
	}
	s := newStage(t, 12)
	s.startAll("a", "b", "c")
	began := time.Now()
	s.replicas["a"].kill()
	s.expectWriters("b", "c")
	t.Logf("b and c have the Clusters of a %s after it was killed", time.Since(began))
	s.start("a")
	s.expectWriters("a", "b", "c")
	s.replicas["b"].freeze()
	s.expectWriters("a", "c")
	s.replicas["b"].thaw()
	s.expectWriters("a", "b", "c")
	v := s.judge(began)
	s.expectOneWriter(v)
	t.Logf("%d writes, %d hand-overs, the longest gaps %v", v.writes, v.handovers, v.gaps)
}

// A Cluster whose app ends its process does so three times at most, wherever it lands.
func TestSharding_Poison(t *testing.T) {
	t.Parallel()
	s := newStage(t, 6)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.start(name)
	}
	s.expectReady()
	text, err := fleet.At(s.remotes[0].Kubeconfig(), netip.AddrFrom4([4]byte{127, 3, 0, 1}))
	must(t, err)
	must(t, s.register(poison, text))
	took := eventually(t, func() error {
		found := s.cluster(poison)
		if c := meta.FindStatusCondition(found.Status.Conditions, hubv1.ConditionModulesReady); c == nil || c.Reason != hubv1.ReasonQuarantined {
			return fmt.Errorf("the Cluster is not quarantined: %+v", found.Status.Conditions)
		}
		return nil
	})
	ended := 0
	for _, name := range s.alive() {
		select {
		case <-s.replicas[name].done:
			ended++
			delete(s.replicas, name)
		default:
		}
	}
	t.Logf("%d processes have ended, and the Cluster is quarantined after %s", ended, took)
	if ended != 3 {
		t.Errorf("%d processes have ended, want 3", ended)
	}
	s.expectWriters(s.alive()...)
}
