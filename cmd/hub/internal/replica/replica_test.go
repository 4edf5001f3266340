// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// Three replicas share the shards. A replica that leaves hands all of its shards over to replicas that are warm.
func TestReplica_ShareAndLeave(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/shards TestModel_WarmAndPromiseAreNeeded")
	t.Parallel()
	w := newInstallation(t, fewShards)
	a, b, c := w.startUnhurried("a"), w.startUnhurried("b"), w.startUnhurried("c")
	w.expectShared(a, b, c)
	before, cold := time.Now(), b.starts()+c.starts()
	must(t, a.end())
	w.expectShared(b, c)
	gap, moves := w.longestGap(before)
	t.Logf("%d shards moved, the longest time without an open gate is %s", moves, gap)
	if more := b.starts() + c.starts() - cold; more > 0 {
		t.Errorf("%d shards were released to a replica without warm apps", more)
	}
	must(t, b.end())
	must(t, c.end())
	w.expectReleased()
}

// A replica without contact closes its gates before another replica opens them, and gets shards again when the contact is
// back, with another incarnation.
func TestReplica_Killed(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/replica TestReplica_LeaseOfAnAdministratorWithoutContact")
	t.Parallel()
	w, a, b := startPair(t)
	began := time.Now()
	a.set(fault.LoseAnswers())
	w.expectShared(b)
	gap, moves := w.longestGap(began)
	t.Logf("%d shards moved after %s, the longest time without an open gate is %s", moves, time.Since(began), gap)
	a.set(fault.Pass())
	w.expectShared(a, b)
}

// Of two replicas one is active and has all shards; the other one has a Lease and may not write. It takes over when the first one
// leaves, whose settings are another's: the setting of the assigner holds, and the change needs no gap.
func TestReplica_OneActive(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	oneActive := func(o *Options) { o.Active = 1 }
	a, b := w.startUnhurried("a", oneActive), w.startUnhurried("b", oneActive)
	eventually(t, "one of them has all shards", func() bool { return a.held()+b.held() == fewShards && a.held()*b.held() == 0 })
	active, standby := a, b
	if b.held() > 0 {
		active, standby = b, a
	}
	eventually(t, "the active one assigns, and the other one stands by", func() bool {
		o, ok := active.Observe()
		return ok && o.Assigns && len(o.Live) == 2 && active.Check() == nil && standby.Check() != nil
	})
	if active.open[0].Load() == 0 {
		t.Error("what runs once is not in the active replica")
	}
	before := time.Now()
	all := w.startUnhurried("all")
	must(t, active.end())
	eventually(t, "another one has all shards", func() bool { return standby.held()+all.held() == fewShards })
	must(t, standby.end())
	third := w.startUnhurried("third")
	w.expectShared(all, third)
	if gap, _ := w.longestGap(before); gap > late {
		t.Errorf("a shard had no open gate for %s", gap)
	}
}
