// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// chronicle has each change of the condition Ready of all Clusters, as a watch delivers them.
type chronicle struct {
	mu      sync.Mutex // protects changes
	changes map[string][]change
}

type change struct {
	at     time.Time
	status metav1.ConditionStatus
	reason string
	runner string // that reported the Cluster last
}

func (s *stage) chronicle() *chronicle {
	s.t.Helper()
	c := &chronicle{changes: map[string][]change{}}
	fleettest.Watch(s.t, fleettest.Watched{Client: s.admin, List: &hubv1.ClusterList{}}, func(o client.Object) {
		if cluster, ok := o.(*hubv1.Cluster); ok {
			c.note(cluster, time.Now())
		}
	})
	return c
}

func (c *chronicle) note(cluster *hubv1.Cluster, at time.Time) {
	ready := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionReady)
	if ready == nil {
		return
	}
	next := change{at: at, status: ready.Status, reason: ready.Reason, runner: cluster.Status.Runner.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.changes[cluster.Name]
	if n := len(before); n == 0 || before[n-1].status != next.status || before[n-1].reason != next.reason || before[n-1].runner != next.runner {
		c.changes[cluster.Name] = append(before, next)
	}
}

// lost returns the first change after a time with which a Cluster was not Ready.
func (c *chronicle) lost(name string, since time.Time) (change, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.changes[name] {
		if one.at.After(since) && one.status != metav1.ConditionTrue {
			return one, true
		}
	}
	return change{}, false
}

// marks returns how many times each Cluster was marked as one without a runner.
func (c *chronicle) marks() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	marks := map[string]int{}
	for name, all := range c.changes {
		for _, one := range all {
			if one.reason == hubv1.ReasonRunnerLost {
				marks[name]++
			}
		}
	}
	return marks
}
