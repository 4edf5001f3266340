// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// expectWriters waits until these replicas, or as many of them as may run Clusters, have all shards, each of them some, and each
// Cluster is written by the replica that has its shard. By chance a replica has shards without a Cluster.
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
		for shard, holder := range holders {
			if !slices.Contains(names, holder) {
				return fmt.Errorf("shard %d is with %q, want one of %v", shard, holder, names)
			}
			if shard != once {
				has[holder]++
			}
		}
		if want := s.mayRun(len(names)); len(has) != want || len(holders) != shardCount+1 {
			return fmt.Errorf("%d shards are with %v, want %d of %v", len(holders), has, want, names)
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

// mayRun returns how many of these replicas have Clusters.
func (s *stage) mayRun(replicas int) int {
	if s.active == 0 {
		return replicas
	}
	return min(s.active, replicas)
}

// once is the shard without Clusters, of what runs once.
const once = 0

// podOf returns the Pod of an incarnation.
func podOf(incarnation string) string {
	if at := strings.LastIndex(incarnation, "-"); at >= 0 {
		return incarnation[:at]
	}
	return incarnation
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
			holder = podOf(*one.Spec.HolderIdentity)
		}
		holders[number] = holder
	}
	return holders, err
}

// A Cluster whose app ends its process by a panic does so three times at most, if the processes start again at once, and each panic
// counts. One that ends each of three replicas before one starts again is quarantined after these three crashes.
func TestSharding_Poison(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/fleet TestFleet_Suspects")
	t.Parallel()
	s := newStage(t, 6)
	s.startAll("a", "b", "c")
	ended := s.poisoned(poison+"-restarts", 1)
	if ended > 3 {
		t.Errorf("%d processes have ended, want three at most", ended)
	}
	s.remove(poison + "-restarts") // Its quarantine ends in a minute.
	eventually(t, func() error { return errorUnless(!s.exists(poison+"-restarts"), "the Cluster is not gone") })
	s.expectWriters(s.alive()...)
	testkit.Equal(t, s.poisoned(poison+"-ends-all", 3), 3, "processes have ended", "before they started again")
	s.expectWriters(s.alive()...)
}

// poisoned registers a poison, and starts processes again when so many have ended. It waits until the Cluster is quarantined after
// as many crashes as processes have ended, which it returns.
func (s *stage) poisoned(name string, atOnce int) (ended int) {
	s.t.Helper()
	text, err := fleet.At(s.remotes[0].Kubeconfig(), netip.AddrFrom4([4]byte{127, 3, 0, 1}))
	must(s.t, err)
	must(s.t, s.register(name, text))
	took := eventually(s.t, func() error {
		ended += s.restart(atOnce)
		found := s.cluster(name)
		if c := meta.FindStatusCondition(found.Status.Conditions, hubv1.ConditionModulesReady); c == nil || c.Reason != hubv1.ReasonQuarantined {
			return fmt.Errorf("%d processes have ended, and the Cluster is not quarantined: %+v", ended, found.Status.Conditions)
		}
		var crashes struct{ Count int }
		err := json.Unmarshal([]byte(found.Annotations[hubv1.AnnotationCrashes]), &crashes)
		if err == nil && crashes.Count != ended {
			err = fmt.Errorf("%d crashes are recorded, want %d", crashes.Count, ended)
		}
		return err
	})
	s.t.Logf("%s: %d processes have ended, and the Cluster is quarantined after %s", name, ended, took)
	return ended
}

// restart starts the processes again that have ended, as a kubelet does, when there are so many. It returns their number.
func (s *stage) restart(atOnce int) int {
	s.t.Helper()
	var ended []string
	for _, name := range s.alive() {
		select {
		case <-s.replicas[name].done:
			ended = append(ended, name)
		default:
		}
	}
	if len(ended) < atOnce {
		return 0
	}
	for _, name := range ended {
		s.start(name)
	}
	return len(ended)
}
