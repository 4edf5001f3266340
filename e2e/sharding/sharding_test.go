// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"encoding/json"
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
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
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

// A Cluster whose app ends its process by a panic does so twice at most, wherever it lands, if the processes start again. Each panic
// counts.
func TestSharding_Poison(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/sharing TestFleet_Suspects")
	t.Parallel()
	s := newStage(t, 6)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.start(name)
	}
	s.expectReady()
	text, err := fleet.At(s.remotes[0].Kubeconfig(), netip.AddrFrom4([4]byte{127, 3, 0, 1}))
	must(t, err)
	must(t, s.register(poison, text))
	ended := 0
	restart := func() { // as a kubelet does
		for _, name := range s.alive() {
			select {
			case <-s.replicas[name].done:
				ended++
				s.start(name)
			default:
			}
		}
	}
	took := eventually(t, func() error {
		restart()
		found := s.cluster(poison)
		if c := meta.FindStatusCondition(found.Status.Conditions, hubv1.ConditionModulesReady); c == nil || c.Reason != hubv1.ReasonQuarantined {
			return fmt.Errorf("the Cluster is not quarantined: %+v", found.Status.Conditions)
		}
		return nil
	})
	eventually(t, func() error {
		restart()
		var crashes struct{ Count int }
		err := json.Unmarshal([]byte(s.cluster(poison).Annotations[hubv1.AnnotationCrashes]), &crashes)
		if err == nil && crashes.Count != ended {
			err = fmt.Errorf("%d crashes are recorded, want %d", crashes.Count, ended)
		}
		return err
	})
	t.Logf("%d processes have ended, and the Cluster is quarantined after %s", ended, took)
	if ended < 1 || ended > 2 {
		t.Errorf("%d processes have ended, want one or two", ended)
	}
	s.expectWriters(s.alive()...)
}
