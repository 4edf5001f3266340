// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// few is a number of Clusters of which a third is never too many to be marked.
const few = 10

// limit is how long Ready may be True after the runner is gone.
const limit = 25 * time.Second

// While each runner renews its Lease, nothing is read or written.
func TestAudit_Calm(t *testing.T) {
	t.Parallel()
	run(t, few, func(m *model) {
		m.pass(10 * time.Minute)
		m.expectMarked(0)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.reads > 0 {
			t.Errorf("%d Leases were read", m.reads)
		}
	})
}

// A replica is killed and its shards are taken by none: its Clusters are marked, each by one replica and once, whether or not its
// Lease is overwritten.
func TestAudit_Unserved(t *testing.T) {
	t.Parallel()
	for name, isFenced := range map[string]bool{"unchanged": false, "overwritten": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, few, func(m *model) {
				gone := m.of("a")
				m.kill("a")
				if m.pass(10 * time.Second); isFenced {
					m.fence("a")
				}
				m.expectMarked(0)
				m.pass(time.Minute)
				m.expectMarked(limit, gone...)
			})
		})
	}
}

// The Lease of the killed replica is deleted: a missing Lease counts as an unchanged one.
func TestAudit_DeletedLease(t *testing.T) {
	t.Parallel()
	run(t, few, func(m *model) {
		gone := m.of("a")
		m.kill("a")
		m.mu.Lock()
		m.put("a", shards.Lease{})
		m.mu.Unlock()
		m.pass(time.Minute)
		m.expectMarked(limit, gone...)
	})
}

// The next runner reports the Clusters in the time that it has for that: none is marked.
func TestAudit_TakenAndReported(t *testing.T) {
	t.Parallel()
	run(t, 300, func(m *model) {
		m.kill("a")
		m.pass(11 * time.Second)
		m.fence("a")
		m.pass(time.Second)
		m.takeAll("a", "b")
		m.pass(10 * time.Second)
		m.report("b")
		m.pass(10 * time.Minute)
		m.expectMarked(0)
		for _, n := range m.nodes {
			if n.refusals() > 0 {
				t.Errorf("%s refused to mark Clusters that were taken", n.name)
			}
		}
	})
}

// The next runner does not report: another replica marks the Clusters in time, although they are a third of all.
func TestAudit_TakenAndNotReported(t *testing.T) {
	t.Parallel()
	run(t, 90, func(m *model) {
		gone := m.of("a")
		m.kill("a")
		m.pass(11 * time.Second)
		m.fence("a")
		m.takeAll("a", "b")
		m.pass(time.Minute)
		m.expectMarked(limit, gone...)
		for _, one := range m.written() {
			if one.by != "c" {
				t.Errorf("%s was marked by %s, want c: the holder reports, and marks nothing", one.cluster, one.by)
			}
		}
		for _, n := range m.nodes {
			if n.refusals() > 0 {
				t.Errorf("%s counts Clusters that were taken as unserved", n.name)
			}
		}
	})
}

// Of two replicas that see the same, the nearest of each shard writes, and the other one reads no Lease for it.
func TestAudit_NearestFirst(t *testing.T) {
	t.Parallel()
	run(t, few, func(m *model) {
		gone := m.of("a")
		m.kill("a")
		m.pass(time.Minute)
		m.expectMarked(limit, gone...)
		for _, one := range m.written() {
			shard := shards.Of(m.uidOf(one.cluster), shardCount)
			if near := shards.Neighbours(shard, []string{"b", "c"}); near[0] != one.by {
				t.Errorf("%s was marked by %s, and %s is nearer", one.cluster, one.by, near[0])
			}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.reads > 2 {
			t.Errorf("%d Leases were read, want one by each replica", m.reads)
		}
	})
}

// The nearest neighbour is frozen, so that the next one acts after it.
func TestAudit_FrozenNeighbour(t *testing.T) {
	t.Parallel()
	run(t, few, func(m *model) {
		const soon = 20 * time.Second // before the Lease of the frozen replica is over, too
		gone := m.of("a")
		m.kill("a")
		m.pass(14 * time.Second)
		m.nodes["b"].freeze()
		m.pass(10 * time.Second) // Not for so long that the Clusters of b are marked, too.
		m.expectMarked(soon, gone...)
		for _, one := range m.written() {
			if one.by != "c" {
				t.Errorf("%s was marked by %s, which is frozen", one.cluster, one.by)
			}
		}
		m.nodes["b"].thaw()
		m.pass(time.Minute)
		m.expectMarked(soon, gone...)
	})
}

// A replica that was frozen for long resumes with old Leases in its memory, and with a Lease of its own that is over.
func TestAudit_FrozenForLong(t *testing.T) {
	t.Parallel()
	run(t, few, func(m *model) {
		m.nodes["b"].freeze()
		m.pass(11 * time.Second)
		m.fence("b")
		m.takeAll("b", "c")
		m.report("c")
		m.pass(10 * time.Minute)
		m.nodes["b"].thaw()
		m.pass(time.Minute)
		m.expectMarked(0)
	})
}

// A replica is frozen between its look at the Clusters and its write. The runner is back meanwhile.
func TestAudit_FrozenBeforeTheWrite(t *testing.T) {
	t.Parallel()
	run(t, few, func(m *model) {
		b := m.nodes["b"]
		o, _ := b.Observe()
		old, _ := b.list(m.ctx)
		look := &look{Observation: o, leaseOf: func(string) (shards.Lease, time.Time) { return shards.Lease{Version: "1"}, m.began.Add(-limit) }, now: time.Now()}
		m.report("a")
		if err := b.auditor.mark(m.ctx, look.due(look.suspects(old))); err != nil {
			t.Error(err)
		}
		m.expectMarked(0)
		m.fence("a") // The Lease is over now, but the Cluster is another version than the one that was compared.
		m.kill("a")
		if err := b.auditor.mark(m.ctx, look.due(look.suspects(old))); err != nil {
			t.Error(err)
		}
		m.expectMarked(0)
	})
}

// A replica that gets its Lease when no other one is left takes all shards, and marks nothing before.
func TestAudit_NewReplica(t *testing.T) {
	t.Parallel()
	run(t, 5, func(m *model) {
		for _, name := range []string{"a", "b", "c"} {
			m.kill(name)
		}
		m.pass(time.Minute)
		for _, name := range []string{"a", "b", "c"} {
			m.fence(name)
		}
		m.mu.Lock()
		d := m.newNode("d")
		m.nodes["d"] = d
		for name, l := range m.leases {
			d.machine.SeeLease(name, l, present())
		}
		m.mu.Unlock()
		m.pass(10 * time.Second)
		go d.renew() // The bubble of synctest waits for both.
		m.pass(time.Second)
		go func() { _ = d.auditor.Start(m.ctx) }()
		m.pass(2 * time.Second)
		for _, name := range []string{"a", "b", "c"} {
			m.takeAll(name, "d")
		}
		m.pass(2 * time.Second)
		m.report("d")
		m.pass(time.Minute)
		m.expectMarked(0)
	})
}

// A replica that has lost its Lease, and gets it back when no other replica is left, takes all shards, and marks nothing before:
// the Leases of the others are over for as long as it waited for its own.
func TestAudit_LeaseBack(t *testing.T) {
	t.Parallel()
	run(t, 5, func(m *model) {
		b := m.nodes["b"]
		b.loseLease()
		for _, name := range []string{"a", "c"} {
			m.kill(name)
			m.fence(name)
		}
		m.pass(10 * time.Second)
		m.mu.Lock()
		b.waits = false
		m.mu.Unlock()
		m.pass(5 * time.Second) // for a renewal, and a pass of the audit
		for _, name := range []string{"a", "c"} {
			m.takeAll(name, "b")
		}
		m.report("b")
		m.pass(time.Minute)
		m.expectMarked(0)
	})
}

// The watch of the Leases of a replica stands still: it reads the Lease before it marks, and finds that it is renewed.
func TestAudit_LiveRead(t *testing.T) {
	t.Parallel()
	run(t, 5, func(m *model) { // So few that the replica, which sees no other one, does not refuse to mark them.
		m.mu.Lock()
		m.nodes["b"].blind = true
		m.mu.Unlock()
		m.pass(10 * time.Minute)
		m.expectMarked(0)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.reads == 0 {
			t.Error("no Lease was read")
		}
	})
}

// A conflict is tried again with the next version of the Cluster, any other failure with the next pass; the others continue.
func TestAudit_Failures(t *testing.T) {
	t.Parallel()
	run(t, few, func(m *model) {
		gone := m.of("a")
		m.kill("a")
		m.mu.Lock()
		m.fails = errors.New("the API server is away")
		m.mu.Unlock()
		m.pass(30 * time.Second)
		m.expectMarked(0)
		m.mu.Lock()
		m.fails = nil
		m.mu.Unlock()
		m.pass(2 * time.Second)
		m.expectMarked(limit+10*time.Second, gone...)
	})
}

// A Cluster that cannot be marked, and one whose runner has a Lease that cannot be read, do not keep the others from their marks.
func TestAudit_OneFails(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(m *model, first string) string{
		"its write": func(_ *model, first string) string { return first },
		"the read of the Lease of its runner": func(m *model, first string) string {
			m.name(first, "spoiled")
			return "spoiled"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, few, func(m *model) {
				gone := m.of("a")
				m.mu.Lock()
				m.spoils = spoil(m, gone[0])
				m.mu.Unlock()
				m.pass(time.Minute) // A Lease that is missing is over after its duration.
				m.kill("a")
				m.pass(time.Minute)
				m.expectMarked(time.Minute+limit, gone[1:]...)
			})
		})
	}
}

// Some Clusters are left alone.
func TestSuspects(t *testing.T) {
	t.Parallel()
	now := time.Now()
	deleted := metav1.NewTime(now)
	for name, tc := range map[string]struct {
		change func(*hubv1.Cluster)
		want   bool
	}{
		"it was Ready":               {func(*hubv1.Cluster) {}, true},
		"it was not Ready":           {func(c *hubv1.Cluster) { c.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		"it has no condition":        {func(c *hubv1.Cluster) { c.Status.Conditions = nil }, true},
		"it was never reported":      {func(c *hubv1.Cluster) { c.Status.Runner = hubv1.RunnerStatus{} }, false},
		"it is paused":               {func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused }, false},
		"it is being deleted":        {func(c *hubv1.Cluster) { c.DeletionTimestamp = &deleted }, false},
		"it is run by this replica":  {func(c *hubv1.Cluster) { c.Status.Runner.Name = "b" }, false},
		"it is marked":               {func(c *hubv1.Cluster) { c.Status.Conditions[0] = marked(c, "") }, false},
		"it was Unknown":             {func(c *hubv1.Cluster) { c.Status.Conditions[0].Status = metav1.ConditionUnknown }, true},
		"its runner is another live": {func(c *hubv1.Cluster) { c.Status.Runner.Name = "c" }, false},
	} {
		c := hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: types.UID("one")}, Status: hubv1.ClusterStatus{
			Runner: hubv1.RunnerStatus{Name: "a"}, Conditions: []metav1.Condition{{Type: hubv1.ConditionReady, Status: metav1.ConditionTrue}},
		}}
		tc.change(&c)
		look := &look{
			Observation: replica.Observation{Me: "b", Duration: 10 * time.Second, Live: []string{"b"}, Holders: make([]string, 1)}, now: now,
			leaseOf: func(name string) (shards.Lease, time.Time) {
				if name == "a" {
					return shards.Lease{Version: "1"}, now.Add(-time.Minute)
				}
				return shards.Lease{Incarnation: "1", Version: "1"}, now
			},
		}
		found := look.due(look.suspects([]hubv1.Cluster{c}))
		if got := len(found) > 0; got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// The transition is that of the status: now, or as before if it was Unknown.
func TestMarked(t *testing.T) {
	t.Parallel()
	before := metav1.NewTime(time.Now().Add(-time.Hour))
	for status, isNew := range map[metav1.ConditionStatus]bool{
		metav1.ConditionTrue: true, metav1.ConditionFalse: true, metav1.ConditionUnknown: false,
	} {
		c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: hubv1.ClusterStatus{Conditions: []metav1.Condition{
			{Type: hubv1.ConditionReady, Status: status, LastTransitionTime: before},
		}}}
		got := marked(c, "because")
		if got.Status != metav1.ConditionUnknown || got.Reason != hubv1.ReasonRunnerLost || got.Message != "because" || got.ObservedGeneration != 3 {
			t.Errorf("%s: got %+v", status, got)
		}
		if now := time.Since(got.LastTransitionTime.Time) < time.Minute; now != isNew {
			t.Errorf("%s: the transition was at %s", status, got.LastTransitionTime)
		}
		if c.Status.Conditions[0].Status != status {
			t.Errorf("%s: the Cluster of the cache is changed", status)
		}
	}
}
