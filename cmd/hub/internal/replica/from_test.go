// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fault"
)

// startedFrom returns the holders from which the shards were started last.
func (p *process) startedFrom() map[shards.Holder]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[shards.Holder]int{}
	for shard, from := range p.from {
		if p.apps[shard] == "started" {
			all[from]++
		}
	}
	return all
}

// A replica is killed while it drains shards that it has promised to another replica, which learns from whom it has taken them.
func TestReplica_KilledAfterThePromise(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fewShards)
	a := w.start("a", func(o *Options) { o.LeaveTimeout = o.Timing.Duration })
	w.expectShared(a)
	killed := shards.Holder{Name: "a", Incarnation: w.incarnation("a")}
	for shard := range w.uids {
		a.hold(shard) // Its drains do not end.
	}
	b := w.start("b")
	eventually(t, "a drains a shard that it has promised", func() bool { return a.count("draining") > 0 })
	a.set(fault.Refuse())
	w.expectShared(b)
	eventually(t, "b starts all shards", func() bool { return b.count("started") == fewShards })
	if got := b.startedFrom(); got[killed] != fewShards {
		t.Errorf("the shards were started from %v, want all of them from %v", got, killed)
	}
}

// A shard that was released is started from none.
func TestReplica_StartsFromNoneAfterARelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fewShards)
	a := w.startUnhurried("a")
	w.expectShared(a)
	b := w.startUnhurried("b")
	eventually(t, "some shards move to b", func() bool { return b.count("started") > 0 })
	must(t, a.end())
	eventually(t, "b starts all shards", func() bool { return b.count("started") == fewShards })
	if got := b.startedFrom(); got[shards.Holder{}] != fewShards {
		t.Errorf("the shards were started from %v, want all of them from none", got)
	}
}

// A Start that has not returned does not keep the Replica from leaving in good order.
func TestReplica_StartEndsWithTheReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fewShards)
	a := w.build("a")
	a.keepsStart.Store(true)
	a.run()
	eventually(t, "a holds all shards", func() bool { return a.held() == fewShards })
	a.cancel()
	must(t, a.wait())
}

// A Start that has not returned ends when the shard is lost.
func TestReplica_StartEndsWithTheHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fewShards)
	a := w.build("a")
	a.keepsStart.Store(true)
	a.run()
	eventually(t, "a holds all shards", func() bool { return a.held() == fewShards })
	incarnation := w.incarnation("a")
	w.overwriteLease("a", "")
	eventually(t, "the next incarnation holds all shards", func() bool {
		return w.incarnation("a") != "" && w.incarnation("a") != incarnation && a.held() == fewShards
	})
}
