// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

// One of the processes that live takes the place of a hold whose process has ended, of the fleet as of the hub. It allows nothing,
// and is in force for a Window at least.
func TestTakeOver_One(t *testing.T) {
	t.Parallel()
	for what, hold := range map[string]func(h *sharedHub) string{
		"fleet": func(h *sharedHub) string {
			h.limits.PerTarget, h.limits.PerFleet = 100, 2
			return h.start("a").exceed(edge, 2)
		},
		"hub":   func(h *sharedHub) string { return h.start("a").exceed("", 2) },
		"alone": func(h *sharedHub) string { return h.start("").exceed("", 2) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newSharedHub(t)
			h.move(edge, "a")
			id := hold(h)
			others := []*process{h.start("b"), h.start("c"), h.start("d")}
			if what != "alone" {
				for _, p := range others {
					p.upkeep()
				}
				h.expectStored("while its process is alive", id)
			}
			h.end("a")
			h.pass(lookEvery)
			var all sync.WaitGroup
			for _, p := range others {
				all.Go(p.upkeep)
			}
			all.Wait()
			for _, p := range others {
				p.upkeep()
			}
			found := h.stored()
			if len(found) != 1 || found[0].ID == id || found[0].Granted+found[0].Used != 0 {
				t.Fatalf("the Store has %+v, want one successor of %s", found, id)
			}
			expectOnlyIn(h, others, found[0])
		})
	}
}

// expectOnlyIn expects that a hold is in force in its process alone, for a Window at least.
func expectOnlyIn(h *sharedHub, all []*process, hold ledger.Held) {
	h.t.Helper()
	for _, p := range all {
		if p.name != hold.Replica {
			p.expectHolds("beside the successor")
			continue
		}
		p.expectHolds("as the successor", hold.ID)
		h.pass(ledger.Window - time.Second)
		p.upkeep()
		h.move(edge, p.name)
		target := edge
		if !hold.Fleet {
			target = ""
		}
		p.expectHeld("before a Window has passed", target, 9)
		h.pass(ledger.Window)
		p.upkeep()
		h.expectStored("after a Window")
	}
}

// A process that has a hold in the place of one whose process has ended removes the other.
func TestTakeOver_InPlace(t *testing.T) {
	t.Parallel()
	h := newSharedHub(t)
	h.start("a").exceed("", 2)
	b := h.start("b")
	id := b.exceed("", 2)
	b.upkeep()
	if n := len(h.stored()); n != 2 {
		t.Fatalf("the Store has %d holds, want one of each process", n)
	}
	h.end("a")
	b.upkeep()
	h.expectStored("after the end of a", id)
}

// A process that looked before another one took the hold over changes nothing.
func TestTakeOver_Conflict(t *testing.T) {
	t.Parallel()
	h := newSharedHub(t)
	h.start("a").exceed("", 2)
	b, c := h.start("b"), h.start("c")
	h.end("a")
	before := h.content()
	b.upkeep()
	after := h.content()
	if err := c.takeOver(t.Context(), before); err != nil {
		t.Errorf("a conflict is an error: %v", err)
	}
	if found := h.content(); found.Version != after.Version || len(found.Entries) != 1 || len(found.Entries[holds.KeyOf("b")].Holds) != 1 {
		t.Errorf("the Store has %+v, want that of b: %+v", found, after)
	}
	c.expectHolds("after the conflict")
}

// A hold of the fleet or of the hub is in force where a target comes from its process, before the first delete there, although that
// process lives, as in an update of all.
func TestTakeOver_WithATarget(t *testing.T) {
	t.Parallel()
	for what, in := range map[string]state.ClusterName{"fleet": edge, "hub": ""} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h, a, b := newPair(t)
			if in == edge {
				h.limits.PerTarget, h.limits.PerFleet = 100, 2
			}
			a.app, b.app = edge, edge
			a.exceed(in, 2)
			h.move(edge, "b")
			id := b.expectHeld("after the move", in, 3)
			b.upkeep()
			h.end("a")
			h.pass(lookEvery)
			b.upkeep()
			h.expectStored("after the end of a", id)
		})
	}
}

// The removal of a Cluster is held in a process that gets it from one that holds removals, also when what was removed counts no longer.
func TestTakeOver_Removals(t *testing.T) {
	t.Parallel()
	h := newSharedHub(t)
	a, b := h.start("a"), h.start("b")
	remove := func(from *process, name string) error { return from.remove(name, 8) }
	for _, name := range []string{"one", "two", "three"} {
		must(t, remove(a, name))
	}
	testkit.ErrorIs(t, remove(a, "four"), deletes.ErrHeld, "the fourth removal")
	h.pass(ledger.Window + time.Minute)
	testkit.ErrorIs(t, remove(a, "four"), deletes.ErrHeld, "the fourth removal, later")
	testkit.ErrorIs(t, remove(b, "four"), deletes.ErrHeld, "the fourth removal in another process")
}

func (p *process) remove(name string, fleet int) error {
	return p.AdmitRemoval(p.hub.t.Context(), Removal{Name: name, UID: types.UID(name), Fleet: fleet})
}

// Of 500 Clusters 25 are removed in a Window, by whichever process: five that Git no longer has are not held.
func TestRemoval_Twentieth(t *testing.T) {
	t.Parallel()
	h := newSharedHub(t)
	both := []*process{h.start("a"), h.start("b")}
	for i := range 26 {
		if err := both[i%2].remove(fmt.Sprint("c", i), 500); errors.Is(err, deletes.ErrHeld) != (i == 25) {
			t.Errorf("removal %d: %v", i, err)
		}
	}
}

// A process that starts with the name of one that has ended has its holds, with what was allowed.
func TestTakeOver_SameName(t *testing.T) {
	t.Parallel()
	h := newSharedHub(t)
	id := h.start("a").exceed("", 2)
	again := h.start("a")
	testkit.Equal(t, again.expectHeld("after a restart", "", 3), id, "the hold")
}

// A hub that is alone again has the holds of all processes, and keeps and ends them.
func TestTakeOver_Alone(t *testing.T) {
	t.Parallel()
	h, a, b := newPair(t)
	h.move("other", "b")
	ids := map[state.ClusterName]string{edge: a.exceed(edge, 2), "other": b.exceed("other", 2), "": b.exceed("", 2)}
	alone := h.start("")
	for target, id := range ids {
		testkit.Equal(t, alone.expectHeld("before the first delete", target, 3), id, "the hold")
	}
	alone.upkeep()
	testkit.Equal(t, len(h.stored()), 3, "holds are stored")
	h.pass(ledger.Window)
	alone.upkeep()
	h.expectStored("after a Window")
}

// A process on standby gives its holds of the hub away: it writes none of them again, and has what the Store has for it once it is
// active.
func TestTakeOver_OfAStandby(t *testing.T) {
	t.Parallel()
	h := newSharedHub(t)
	a, b := h.start("a"), h.start("b")
	a.exceed("", 2)
	h.setStandby("a", true)
	a.upkeep()
	a.expectHolds("on standby")
	b.upkeep()
	found := h.stored()
	if len(found) != 1 || found[0].Replica != "b" {
		t.Fatalf("the Store has %+v, want one hold of b", found)
	}
	a.upkeep()
	h.setStandby("a", false)
	a.upkeep()
	a.expectHolds("active again")
	h.expectStored("after the return of a", found[0].ID)
	b.expectHolds("after the return of a", found[0].ID)
}
