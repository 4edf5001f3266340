// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fault"
)

func (p *process) startedFrom() map[shards.Origin]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[shards.Origin]int{}
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
	w := newInstallation(t, fewShards)
	a := w.start("a", func(o *Options) { o.LeaveTimeout = o.Timing.Duration })
	w.expectShared(a)
	killed := shards.Origin{Holder: shards.Holder{Name: "a", Incarnation: w.incarnation("a")}, HasEnded: true}
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

// A replica that leaves while no other one runs releases its shards to none, and the next replica learns from whom.
func TestReplica_ReleasedToNone(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.start("a")
	w.expectShared(a)
	released := shards.Origin{Holder: shards.Holder{Name: "a", Incarnation: w.incarnation("a")}}
	must(t, a.end())
	b := w.start("b")
	w.expectShared(b)
	eventually(t, "b starts all shards", func() bool { return b.count("started") == fewShards })
	if got := b.startedFrom(); got[released] != fewShards {
		t.Errorf("the shards were started from %v, want all of them from %v", got, released)
	}
	c := w.startUnhurried("c")
	eventually(t, "some shards move to c", func() bool { return c.count("started") > 0 })
	for from := range c.startedFrom() {
		if from != (shards.Origin{}) {
			t.Errorf("a shard that b has released to c was started from %v", from)
		}
	}
}

// A Start that has not returned does not keep the Replica from leaving in good order.
func TestReplica_StartEndsWithTheReplica(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
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
	w := newInstallation(t, fewShards)
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
