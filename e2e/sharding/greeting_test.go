// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"bytes"
	"fmt"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// The greeting of the example podcount, whose hub part runs in every replica, reaches each remote from one replica: the one that
// runs the remote, also after a replica was killed.
func TestSharding_Greetings(t *testing.T) {
	t.Parallel()
	s := newStage(t, 12)
	s.greets = true
	s.startAll("a", "b", "c")
	began := time.Now()
	s.expectGreeted("hello")
	victim := s.largest("a", "b", "c")
	s.replicas[victim].kill()
	delete(s.replicas, victim)
	var left []string
	for name := range s.replicas {
		left = append(left, name)
	}
	s.expectWriters(left...)
	s.expectGreeted("good morning")
	for _, name := range s.names {
		if all := s.greeters(began, "good morning")[name]; all.Has(victim) {
			t.Errorf("%s was greeted by %s, which was killed before", name, victim)
		}
	}
}

// expectGreeted writes a greeting, and expects that each remote gets it from the replica that runs it, and from no other one. It
// repeats that with another greeting if a shard moves meanwhile.
func (s *stage) expectGreeted(text string) {
	s.t.Helper()
	for i := range 10 {
		before, err := s.holders()
		must(s.t, err)
		one, began := fmt.Sprintf("%s %d", text, i), time.Now()
		greeting := corev1ac.ConfigMap("greeting", metav1.NamespaceDefault).WithData(map[string]string{"text": one})
		must(s.t, s.admin.Apply(s.t.Context(), greeting, client.FieldOwner("administrator"), client.ForceOwnership))
		var by map[string]sets.Set[string]
		eventually(s.t, func() error {
			by = s.greeters(began, one)
			return errorUnless(len(by) == len(s.names), "%d of %d remotes are greeted", len(by), len(s.names))
		})
		after, err := s.holders()
		must(s.t, err)
		if !maps.Equal(before, after) {
			continue
		}
		for _, name := range s.names {
			if holder := after[shardOf(s.cluster(name).UID)]; !by[name].Equal(sets.New(holder)) {
				s.t.Errorf("%s was greeted by %v, want %s", name, sets.List(by[name]), holder)
			}
		}
		return
	}
	s.t.Fatal("shards move all the time")
}

// greeters returns the replicas that have written a greeting with that text since a time, by Cluster.
func (s *stage) greeters(since time.Time, text string) map[string]sets.Set[string] {
	s.t.Helper()
	isGreeting := func(e fleet.AuditEvent) bool {
		return e.Object.Resource == "configmaps" && e.Object.Name == "greeting" && bytes.Contains(e.Body, []byte(text))
	}
	all := map[string]sets.Set[string]{}
	for _, remote := range s.remotes {
		events, err := remote.AuditEvents(fleet.ByAgent("clusterfx/"), fleet.Since(since), fleet.AuditEvent.Writes, isGreeting)
		must(s.t, err)
		for _, e := range events {
			found := agent.FindStringSubmatch(e.UserAgent)
			if found == nil {
				s.t.Fatalf("a write without a permission: %s", e)
			}
			if all[found[2]] == nil {
				all[found[2]] = sets.New[string]()
			}
			all[found[2]].Insert(found[1])
		}
	}
	return all
}
