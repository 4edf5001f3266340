// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

const (
	// readyAtMost is how long Ready may be True after the runner is gone.
	readyAtMost = 25 * time.Second
	// slack is for a machine that is busy with other tests. The tests log what they measure.
	slack = 20 * time.Second
)

// throughProxies puts a proxy before the remote of each Cluster. No replica has been started.
func (s *stage) throughProxies() map[string]*fault.Proxy {
	s.t.Helper()
	proxies := map[string]*fault.Proxy{}
	for i, name := range s.names {
		proxy, text := fleettest.ProxyTo(s.t, s.remotes[i%len(s.remotes)])
		must(s.t, s.admin.Update(s.t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: name}, Data: map[string][]byte{"kubeconfig": text},
		}))
		proxies[name] = proxy
	}
	return proxies
}

// runBy returns the Clusters that a replica reported last.
func (s *stage) runBy(replica string) []hubv1.Cluster {
	s.t.Helper()
	var all hubv1.ClusterList
	must(s.t, s.admin.List(s.t.Context(), &all))
	var found []hubv1.Cluster
	for _, one := range all.Items {
		if one.Status.Runner.Name == replica {
			found = append(found, one)
		}
	}
	return found
}

// largest returns the replica that has reported the most Clusters.
func (s *stage) largest(replicas ...string) string {
	s.t.Helper()
	return slices.MaxFunc(replicas, func(x, y string) int { return cmp.Compare(len(s.runBy(x)), len(s.runBy(y))) })
}

// expectLost waits until Clusters are not Ready, and fails the test if one of them was Ready for too long.
func (s *stage) expectLost(c *chronicle, clusters []hubv1.Cluster, since time.Time) {
	s.t.Helper()
	var longest time.Duration
	reasons := map[string]int{}
	for _, one := range clusters {
		eventually(s.t, func() error {
			if _, lost := c.lost(one.Name, since); !lost {
				return fmt.Errorf("%s is Ready", one.Name)
			}
			return nil
		})
		first, _ := c.lost(one.Name, since)
		longest = max(longest, first.at.Sub(since))
		reasons[first.reason]++
	}
	s.t.Logf("%d Clusters were Ready for %s at most after their runner was killed, and then %v", len(clusters), longest, reasons)
	if longest > readyAtMost+slack {
		s.t.Errorf("a Cluster was Ready for %s without a runner", longest)
	}
}

// A replica is killed whose remotes the other replicas cannot reach: they take its Clusters, and none of them stays Ready.
func TestSharding_KilledBesideUnreachableRemotes(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/fleet TestMarks_Pass")
	t.Parallel()
	s := newStage(t, 12)
	proxies := s.throughProxies()
	s.startAll("a", "b", "c")
	s.expectExported("a", "b", "c")
	victim := s.largest("a", "b", "c")
	gone, c := s.runBy(victim), s.chronicle()
	began := time.Now()
	s.replicas[victim].kill()
	for _, one := range gone {
		must(t, proxies[one.Name].Set(fault.Blackhole()))
	}
	s.expectLost(c, gone, began)
	for _, one := range gone {
		must(t, proxies[one.Name].Set(fault.Pass()))
	}
	s.expectReady()
	if left := s.runBy(victim); len(left) > 0 {
		t.Errorf("%d Clusters name the replica that was killed", len(left))
	}
}

// A shard cannot be taken, because its record cannot be decoded. When its holder is killed, its Clusters are marked within the
// limit, although the assigner, which marks, is frozen, and once, although it resumes. When the record is whole again, a replica takes the
// shard, and its report replaces the mark.
func TestSharding_ServedByNone(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/fleet TestMarks_Pass")
	t.Parallel()
	s := newStage(t, 20)
	s.startAll("a", "b", "c")
	assigner := s.assigner()
	victim := s.replicas[s.other(assigner.name)]
	shard := shardOf(s.runBy(victim.name)[0].UID)
	var gone []hubv1.Cluster
	for _, one := range s.runBy(victim.name) {
		if shardOf(one.UID) == shard {
			gone = append(gone, one)
		}
	}
	c := s.chronicle()
	victim.freeze() // It would write the record again.
	began := time.Now()
	s.damage(shard, "7")
	victim.kill()
	delete(s.replicas, victim.name)
	assigner.freeze()
	s.expectLost(c, gone, began)
	s.expectMarks(c, gone)
	assigner.thaw()
	eventually(t, func() error { // The others have all the rest.
		n := len(s.runBy(victim.name))
		return errorUnless(n == len(gone), "%d Clusters name the replica that was killed, want %d", n, len(gone))
	})
	eventually(t, func() error { return s.hasShards(assigner.name) })
	s.damage(shard, strconv.Itoa(shardCount))
	s.expectReady()
	s.expectWriters(s.alive()...)
	s.expectMarks(c, gone)
	s.expectEvents(gone)
	s.expectExported(s.alive()...)
}

// expectMarks fails the test unless these Clusters have been marked, each once, and no others.
func (s *stage) expectMarks(c *chronicle, clusters []hubv1.Cluster) {
	s.t.Helper()
	marks := c.marks()
	for _, one := range clusters {
		testkit.Equal(s.t, marks[one.Name], 1, "marks of", one.Name)
		delete(marks, one.Name)
	}
	if len(marks) > 0 {
		s.t.Errorf("other Clusters were marked, too: %v", marks)
	}
}

// expectEvents fails the test unless each of these Clusters has one event about its mark.
func (s *stage) expectEvents(clusters []hubv1.Cluster) {
	s.t.Helper()
	for _, one := range clusters {
		eventually(s.t, func() error {
			var all eventsv1.EventList
			if err := s.admin.List(s.t.Context(), &all, client.InNamespace(metav1.NamespaceDefault)); err != nil {
				return err
			}
			found := 0
			for _, e := range all.Items {
				if e.Regarding.Name == one.Name && e.Reason == hubv1.ReasonRunnerLost {
					found++
				}
			}
			if found != 1 {
				return fmt.Errorf("%s has %d events about its mark", one.Name, found)
			}
			return nil
		})
	}
}

func (s *stage) hasShards(name string) error {
	holders, err := s.holders()
	for shard, holder := range holders {
		if shard != once && holder == name {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("%s has no shard", name))
}

// damage says that a record is of that number of shards.
func (s *stage) damage(shard int, count string) {
	s.t.Helper()
	record := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-shard-" + strconv.Itoa(shard)}}
	change := fmt.Appendf(nil, `{"metadata":{"annotations":{"clusterfx.dev/shards":%q}}}`, count)
	must(s.t, s.admin.Patch(s.t.Context(), record, client.RawPatch(types.MergePatchType, change)))
}

func shardOf(uid types.UID) int {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(uid))
	shard, _ := bits.Mul64(hash.Sum64(), shardCount)
	return int(shard) + 1
}
