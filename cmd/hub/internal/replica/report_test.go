// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A replica knows nothing before it has its Lease, and then which replicas are live, which shards they hold, and their Leases.
func TestReplica_Observe(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.build("a")
	if o, ok := a.Observe(); ok {
		t.Errorf("it observes %+v before it runs", o)
	}
	testkit.ErrorIs(t, a.Check(), ErrNotActive, "it writes before it runs")
	a.run()
	b := w.start("b")
	w.expectShared(a, b)
	eventually(t, "a observes both", func() bool {
		o, ok := a.Observe()
		inA, inB := w.incarnation("a"), w.incarnation("b")
		if !ok || !slices.Equal(o.Live, []string{inA, inB}) || o.Me != inA {
			return false
		}
		for shard, holder := range o.Holders {
			if holder != inA && holder != inB || (holder == inA) != (o.Epochs[shard] > 0) {
				return false
			}
		}
		return len(o.Holders) == fewShards+1
	})
	must(t, a.end())
	if o, ok := a.Observe(); ok {
		t.Errorf("it observes %+v after its end", o)
	}
}

// A replica knows that another has ended when no Lease of it was renewed for the duration, or when it has no shard. It knows nothing
// without a Lease of its own.
func TestReplica_HasEnded(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.build("a")
	if a.HasEnded("never") {
		t.Error("it knows of an end before it runs")
	}
	began := time.Now()
	a.run()
	b := w.start("b")
	w.expectShared(a, b)
	for !a.HasEnded("never") {
		if time.Since(began) > patience {
			t.Fatal("a replica that never was has not ended")
		}
		if a.HasEnded("a") || a.HasEnded("b") {
			t.Fatal("a live replica has ended")
		}
		<-time.After(time.Millisecond)
	}
	if took := time.Since(began); took < quick().Duration {
		t.Errorf("a missing Lease is an end after %s, want the duration %s", took, quick().Duration)
	}
	w.drain("b", true)
	eventually(t, "b has no shard", func() bool { return a.HasEnded("b") })
	w.drain("b", false)
	eventually(t, "b has shards again", func() bool { return !a.HasEnded("b") })
	must(t, b.end())
	eventually(t, "b has ended", func() bool { return a.HasEnded("b") })
	must(t, a.end())
	if a.HasEnded("b") {
		t.Error("it knows of an end after its own")
	}
}

// A replica is late when it has not renewed its Lease for two periods, until the next renewal. It is not late without a Lease.
func TestReplica_Late(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	a := w.build("a", func(o *Options) {
		o.Timing.Duration, o.Timing.Deadline, o.ForgetAfter = 45*time.Second, 40*time.Second, time.Hour
	})
	if a.IsLate() {
		t.Error("a replica without a Lease is late")
	}
	a.run()
	eventually(t, "the replica has its Lease", func() bool { return a.Check() == nil })
	a.stuck.Store(true)
	eventually(t, "the replica is late", a.IsLate)
	must(t, a.Check())
	a.stuck.Store(false)
	eventually(t, "the replica is in time", func() bool { return !a.IsLate() })
	must(t, a.end())
	if a.IsLate() {
		t.Error("a replica that has left is late")
	}
}
