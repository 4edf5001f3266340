// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// chronicle has each change of the condition Ready of all Clusters, as a watch delivers them.
type chronicle struct {
	t       testing.TB
	mu      sync.Mutex // protects changes
	changes map[string][]change
}

// change is a change of Ready.
type change struct {
	at     time.Time
	status metav1.ConditionStatus
	reason string
	runner string // that reported the Cluster last
}

// chronicle begins a chronicle, which ends with the test.
func (s *stage) chronicle() *chronicle {
	s.t.Helper()
	c := &chronicle{t: s.t, changes: map[string][]change{}}
	var all hubv1.ClusterList
	must(s.t, s.admin.List(s.t.Context(), &all))
	for i := range all.Items {
		c.note(&all.Items[i], time.Now())
	}
	var again hubv1.ClusterList
	again.ResourceVersion = all.ResourceVersion
	events, err := s.admin.Watch(s.t.Context(), &again)
	must(s.t, err)
	var reading sync.WaitGroup
	reading.Go(func() { c.read(events) })
	s.t.Cleanup(func() {
		events.Stop()
		reading.Wait()
	})
	return c
}

func (c *chronicle) read(events watch.Interface) {
	for e := range events.ResultChan() {
		if cluster, ok := e.Object.(*hubv1.Cluster); ok {
			c.note(cluster, time.Now())
		}
	}
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
