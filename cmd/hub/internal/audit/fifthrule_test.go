// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// More than a fifth of all Clusters have no runner and no replica takes them: none is marked, until fewer are left.
func TestAudit_FifthRule(t *testing.T) {
	t.Parallel()
	run(t, 60, func(m *model) {
		m.kill("a")
		m.pass(10 * time.Minute)
		m.expectMarked(0)
		for _, name := range []string{"b", "c"} {
			n := m.nodes[name]
			if n.refusals() < 500 {
				t.Errorf("%s counts %g refusals", name, n.refusals())
			}
			if len(n.logs) != 1 || !strings.Contains(n.logs[0], "More than five and more than a fifth") {
				t.Errorf("%s has the log %v", name, n.logs)
			}
		}
		m.mu.Lock()
		last := -1
		for _, c := range m.clusters {
			shard := shards.Of(c.UID, shardCount)
			if m.records[shard].Holder.Name == "a" && last < 0 {
				last = shard
			}
			if m.records[shard].Holder.Name == "a" && shard != last {
				m.take(shard, "b")
			}
		}
		m.mu.Unlock()
		m.report("b")
		left := m.of("a")
		m.pass(10 * time.Second)
		m.expectMarked(time.Hour, left...)
	})
}

// A small number of Clusters is never too many, even if they are all.
func TestIsTooMany(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		n, all int
		want   bool
	}{{0, 0, false}, {5, 5, false}, {6, 6, true}, {6, 30, false}, {6, 29, true}, {200, 1000, false}, {201, 1000, true}} {
		if got := isTooMany(tc.n, tc.all); got != tc.want {
			t.Errorf("%d of %d: got %t", tc.n, tc.all, got)
		}
	}
}

// More than a fifth of all Clusters are served by none. Those whose next runner does not report them are marked nevertheless.
func TestAudit_FifthRuleSparesTheServed(t *testing.T) {
	t.Parallel()
	run(t, 90, func(m *model) {
		m.mu.Lock()
		m.take(0, "b") // The status of its Clusters names a, which has ended.
		m.mu.Unlock()
		var served []string
		for _, name := range m.of("a") {
			if shards.Of(m.uidOf(name), shardCount) == 0 {
				served = append(served, name)
			}
		}
		m.kill("a")
		m.pass(time.Minute)
		m.expectMarked(limit, served...)
		if len(served) == 0 || m.nodes["b"].refusals() == 0 || m.nodes["c"].refusals() == 0 {
			t.Errorf("%d Clusters are served, and the refusals are %g and %g", len(served), m.nodes["b"].refusals(), m.nodes["c"].refusals())
		}
	})
}

// One pass marks a limited number of Clusters.
func TestAudit_MostWrites(t *testing.T) {
	t.Parallel()
	run(t, 1200, func(m *model) {
		m.kill("a")
		m.pass(11 * time.Second)
		m.takeAll("a", "b")
		m.pass(12500 * time.Millisecond)
		if n := len(m.written()); n == 0 || n > 2*mostWrites {
			t.Errorf("%d Clusters are marked in the first second", n)
		}
	})
}
