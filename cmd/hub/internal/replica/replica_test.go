// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

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
// leaves, with warm apps, and its settings are another's: the setting of the assigner holds, and the change needs no gap.
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
	before, cold := time.Now(), standby.starts()
	all := w.startUnhurried("all")
	must(t, active.end())
	eventually(t, "another one has all shards", func() bool { return standby.held()+all.held() == fewShards })
	if more := standby.starts() + all.starts() - cold; more > 0 {
		t.Errorf("%d shards were released to a replica without warm apps", more)
	}
	must(t, standby.end())
	third := w.startUnhurried("third")
	w.expectShared(all, third)
	if gap, _ := w.longestGap(before); gap > late {
		t.Errorf("a shard had no open gate for %s", gap)
	}
}
