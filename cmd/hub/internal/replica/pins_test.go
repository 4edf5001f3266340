// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// holds reports whether a replica holds these shards.
func (p *process) holdsAll(of shards.Pins) bool {
	for shard := range of {
		if p.open[shard].Load() == 0 {
			return false
		}
	}
	return true
}

// Pinned shards move to a replica with the labels, whichever replica assigns them, and go elsewhere while none has them. A
// replica that returns with other labels is another candidate.
func TestReplica_Pins(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, fewShards)
	var pins atomic.Pointer[shards.Pins]
	pins.Store(&shards.Pins{})
	labelled := func(place string) func(*Options) {
		return func(o *Options) {
			o.Labels, o.Pins = map[string]string{"place": place}, func() shards.Pins { return *pins.Load() }
		}
	}
	a, b, c := w.startUnhurried("a", labelled("south")), w.startUnhurried("b", labelled("north")), w.startUnhurried("c", labelled("south"))
	w.expectShared(a, b, c)
	north := map[string]string{"place": "north"}
	pinned := shards.Pins{1: north, 2: north, 3: north}
	pins.Store(&pinned)
	eventually(t, "the replica with the labels holds the pinned shards", func() bool { return b.holdsAll(pinned) })
	w.expectShared(a, b, c)
	if lease := w.leaseOf("b"); !cmp.Equal(labelsOf(&lease), north) {
		t.Errorf("the Lease of b has the labels %v", labelsOf(&lease))
	}
	must(t, b.end())
	eventually(t, "the others hold all shards", func() bool { return a.held()+c.held() == fewShards })
	b = w.startUnhurried("b", labelled("south"))
	w.expectShared(a, b, c)
	must(t, c.end())
	c = w.startUnhurried("c", labelled("north"))
	eventually(t, "another replica with the labels holds them", func() bool { return c.holdsAll(pinned) })
	w.expectShared(a, b, c)
}
