// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

func allFacts() []facts {
	var all []facts
	states, flags := []presence{absent, present, terminating}, 1<<7
	for _, up := range states {
		for _, down := range states {
			for _, ownership := range []Ownership{Foreign, Ours, Stale, Copied} {
				for bits := range flags {
					is := func(i int) bool { return bits&(1<<i) != 0 }
					all = append(all, facts{
						up: up, down: down, ownership: ownership, imported: is(0), selected: is(1), finalizer: is(2),
						upSyncer: is(3), propagates: is(4), lost: is(5), byOthers: is(6),
					})
				}
			}
		}
	}
	return all
}

// theirs reports whether there is a downstream object that is no copy of the upstream object.
func (f facts) theirs() bool {
	return f.down != absent && (f.ownership == Foreign || f.ownership == Copied)
}

// copied reports whether there is a copy.
func (f facts) copied() bool { return f.down != absent && !f.theirs() }

// wanted reports whether the upstream object shall have a copy.
func (f facts) wanted() bool { return f.up == present && f.selected }

// A step is taken only if its condition holds, for all combinations of facts.
// Promise: dispatch: one function decides from facts; all combinations of them are tested.
func TestDecide_EveryStepHasItsCondition(t *testing.T) {
	t.Parallel()
	may := map[step]func(facts) bool{
		stepNone: func(f facts) bool { return !f.wanted() || f.imported },
		stepWait: func(f facts) bool { return f.down == terminating && f.copied() && !f.imported },
		stepSyncDown: func(f facts) bool {
			return f.wanted() && f.down == absent && !f.imported
		},
		stepSync: func(f facts) bool {
			return f.up == present && f.down != absent && f.imported ||
				f.wanted() && f.down == present && f.ownership == Ours && !f.imported
		},
		stepSyncUp: func(f facts) bool {
			return f.up == absent && f.down == present && f.theirs() && f.upSyncer && !f.imported
		},
		stepConflict: func(f facts) bool { return f.wanted() && f.theirs() && !f.imported },
		stepRenew: func(f facts) bool {
			return f.down == present && f.ownership == Stale && !f.imported && f.wanted()
		},
		stepDeleteDown: func(f facts) bool {
			return f.down == present && f.copied() && !f.imported && !f.wanted()
		},
		stepDeleteUp: func(f facts) bool {
			ended := f.down == absent && f.lost || f.down == terminating && f.ownership == Ours && f.byOthers
			return f.up == present && (f.imported && f.down == absent || f.selected && f.propagates && ended && !f.imported)
		},
		stepRelease: func(f facts) bool {
			return f.finalizer && f.up != absent && !f.wanted() && !f.copied() && !f.imported
		},
	}
	for _, f := range allFacts() {
		if next := decide(f); !may[next](f) {
			t.Errorf("step %d for %+v", next, f)
		}
	}
}

// No step that writes the downstream object is taken for an object of another owner, and an imported object is only compared.
func TestDecide_ObjectsOfOthersAreNotWritten(t *testing.T) {
	t.Parallel()
	writes := []step{stepSyncDown, stepSync, stepRenew, stepDeleteDown}
	for _, f := range allFacts() {
		next := decide(f)
		if f.theirs() && !f.imported && slices.Contains(writes, next) {
			t.Errorf("step %d writes an object of another owner: %+v", next, f)
		}
		if f.imported && (next == stepSyncDown || next == stepDeleteDown) {
			t.Errorf("step %d writes the source of an imported object: %+v", next, f)
		}
	}
}

// Nothing is left: what can be done is done.
func TestDecide_NothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, f := range allFacts() {
		next, why := decide(f), ""
		switch {
		case f.imported:
		case f.wanted() && f.down == absent && (!f.lost || !f.propagates) && next != stepSyncDown:
			why = "a selected object without a copy gets one"
		case f.wanted() && f.theirs() && next != stepConflict:
			why = "a name that is taken is reported"
		case !f.wanted() && f.down == present && f.copied() && next != stepDeleteDown:
			why = "a copy without an original is deleted"
		case f.up == terminating && f.finalizer && !f.copied() && next != stepRelease:
			why = "an original that is being deleted is released when there is no copy"
		case f.up == present && !f.selected && f.finalizer && !f.copied() && next != stepRelease:
			why = "an original that is not selected is released when there is no copy"
		}
		testkit.Equal(t, why, "", "step", next, "for", f)
	}
}

// The rows of the table in the documentation of the package.
// Promise: Syncer: SyncDown if there is no copy, Sync if there is one.
func TestDecide_Table(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		facts facts
		want  step
	}{
		{facts{up: present, selected: true}, stepSyncDown},
		{facts{up: present, selected: true, down: present, ownership: Ours}, stepSync},
		{facts{up: present, selected: true, down: present, ownership: Stale}, stepRenew},
		{facts{up: present, selected: true, down: present, ownership: Foreign}, stepConflict},
		{facts{up: present, selected: true, down: present, ownership: Copied}, stepConflict},
		{facts{up: present, selected: true, down: terminating, ownership: Ours}, stepWait},
		{facts{up: present, selected: true, down: terminating, ownership: Ours, propagates: true, byOthers: true}, stepDeleteUp},
		{facts{up: present, selected: true, down: terminating, ownership: Ours, propagates: true}, stepWait},
		{facts{up: present, selected: true, lost: true, propagates: true}, stepDeleteUp},
		{facts{up: terminating, selected: true, finalizer: true, down: present, ownership: Ours}, stepDeleteDown},
		{facts{up: terminating, selected: true, finalizer: true, down: present, ownership: Stale}, stepDeleteDown},
		{facts{up: terminating, selected: true, finalizer: true}, stepRelease},
		{facts{up: terminating, selected: true, finalizer: true, down: present, ownership: Foreign}, stepRelease},
		{facts{down: present, ownership: Ours}, stepDeleteDown},
		{facts{down: present, ownership: Foreign, upSyncer: true}, stepSyncUp},
		{facts{down: present, ownership: Foreign}, stepNone},
		{facts{}, stepNone},
		{facts{up: present, imported: true}, stepDeleteUp},
		{facts{up: present, imported: true, down: present, ownership: Foreign}, stepSync},
	} {
		t.Run(fmt.Sprintf("%+v", row.facts), func(t *testing.T) {
			t.Parallel()
			testkit.Equal(t, decide(row.facts), row.want, "step")
		})
	}
}
