// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// late is by how much a busy machine may delay a replica. The model has the time without a writer on an idle machine.
const late = 20 * time.Second

// An administrator deletes the Lease of a replica. The incarnation ends, and the replica continues with another one. No two gates of
// a shard are open at a time. The model has the other changes of administrators.
func TestReplica_LeaseOfAnAdministrator(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/shards TestMachine_Absence")
	t.Parallel()
	w := newInstallation(t, fewShards)
	requests := &counting{name: "b"}
	a, b := w.start("a"), w.start("b", requests.wrap)
	w.expectShared(a, b)
	before, began, sent := w.incarnation("a"), time.Now(), requests.therest.Load()
	w.deleteLease(before)
	eventually(t, "another incarnation that renews", func() bool {
		now := w.incarnation("a")
		return now != "" && now != before
	})
	w.expectShared(a, b)
	gap, moves := w.longestGap(began)
	t.Logf("%d shards moved, the longest time without an open gate is %s, with a duration of %s", moves, gap, quick().Duration)
	if gap > quick().Duration+late {
		t.Errorf("a shard had no open gate for %s", gap)
	}
	if n := requests.therest.Load() - sent; n > 30*fewShards {
		t.Errorf("b has sent %d requests: it waits for the end of another incarnation without a pause", n)
	}
}

// The replica from whose Lease an administrator removes the incarnation has no contact, so that its gate is open until the deadline.
// Another replica takes its shards later.
func TestReplica_LeaseOfAnAdministratorWithoutContact(t *testing.T) {
	t.Parallel()
	w, a, b := startPair(t)
	w.awaitRenewals("a")
	w.expectShared(a, b) // A replica that got no processor time has lost its shards meanwhile.
	began, lease := time.Now(), w.incarnation("a")
	a.set(fault.Blackhole())
	w.overwriteHolder(lease, "")
	w.expectShared(b)
	if _, moves := w.longestGap(began); moves == 0 {
		t.Error("no shard has moved")
	}
	a.set(fault.Pass())
	w.expectShared(a, b)
}

// The Lease of a replica is replaced by another one of its name, with its holder, as by a create that arrives late. The incarnation
// ends, and the replica continues with another one.
func TestReplica_LeaseCreatedAgain(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a, b := w.start("a"), w.start("b")
	w.expectShared(a, b)
	before := w.incarnation("a")
	w.deleteLease(before)
	w.createLease(before, labelReplica, before)
	eventually(t, "another incarnation holds shards", func() bool {
		for _, holder := range w.survey().Holders {
			if holder != before && shards.PodOf(holder) == "a" {
				return true
			}
		}
		return false
	})
	w.expectShared(a, b)
}

// A Lease that an administrator makes another kind of object ends its incarnation, and the replica continues with another one.
func TestReplica_LeaseWithoutItsLabel(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 2)
	a := w.start("a")
	w.expectShared(a)
	before := w.incarnation("a")
	w.change(before, patch{"metadata": map[string]any{"labels": map[string]any{label: nil}}})
	eventually(t, "another incarnation holds the shards", func() bool {
		for _, holder := range w.survey().Holders {
			if holder == before || holder == "" {
				return false
			}
		}
		return true
	})
	w.expectShared(a)
}

// A record that names another live replica in the same term opens no gate, and its holder writes it again.
func TestReplica_AnotherHolderInTheRecord(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, 2)
	a, b := w.startUnhurried("a"), w.startUnhurried("b")
	w.expectShared(a, b)
	shard := 1
	if a.open[shard].Load() == 0 {
		shard = 2
	}
	want := w.record(shard)
	w.overwriteHolder(recordName(shard), w.incarnation("b"))
	eventually(t, "the holder writes the record again", func() bool { return w.record(shard).Holder == want.Holder })
	if a.open[shard].Load() != want.Epoch {
		t.Errorf("the holder has the term %d, want %d", a.open[shard].Load(), want.Epoch)
	}
}
