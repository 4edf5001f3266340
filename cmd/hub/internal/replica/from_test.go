// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fault"
)

// startedAfterEnd returns how many shards were started after the end of a holder that had not released them, and how many others.
func (p *process) startedAfterEnd() (ended, released int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard, after := range p.after {
		switch {
		case p.apps[shard] != "started":
		case after != "":
			ended++
		default:
			released++
		}
	}
	return ended, released
}

// A replica is killed while it drains shards that it has promised to another replica, which learns that the holder had ended.
func TestReplica_KilledAfterThePromise(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.start("a", func(o *Options) { o.LeaveTimeout = o.Timing.Duration })
	w.expectShared(a)
	for shard := range w.uids {
		a.hold(shard) // Its drains do not end.
	}
	b := w.start("b")
	eventually(t, "a drains a shard that it has promised", func() bool { return a.count("draining") > 0 })
	a.set(fault.Refuse())
	w.expectShared(b)
	eventually(t, "b starts all shards", func() bool { return b.count("started") == fewShards+1 })
	if ended, released := b.startedAfterEnd(); released > 0 {
		t.Errorf("%d shards were started after the end of their holder, and %d as if it had released them", ended, released)
	}
}

// A replica that leaves while no other one runs releases its shards to none.
func TestReplica_ReleasedToNone(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.start("a")
	w.expectShared(a)
	must(t, a.end())
	b := w.start("b")
	w.expectShared(b)
	eventually(t, "b starts all shards", func() bool { return b.count("started") == fewShards+1 })
	c := w.startUnhurried("c")
	eventually(t, "some shards move to c", func() bool { return c.count("started") > 0 })
	for _, p := range []*process{b, c} {
		if ended, _ := p.startedAfterEnd(); ended > 0 {
			t.Errorf("%s starts %d released shards as if their holder had ended", p.name, ended)
		}
	}
}

// A Start that has not returned ends when the shard is lost, and does not keep the Replica from leaving in good order.
func TestReplica_StartEnds(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.build("a")
	a.keepsStart.Store(true)
	a.run()
	eventually(t, "a holds all shards", func() bool { return a.held() == fewShards })
	incarnation := w.incarnation("a")
	w.overwriteHolder(incarnation, "")
	eventually(t, "the next incarnation holds all shards", func() bool {
		return w.incarnation("a") != "" && w.incarnation("a") != incarnation && a.held() == fewShards
	})
	a.cancel()
	must(t, a.wait())
}
