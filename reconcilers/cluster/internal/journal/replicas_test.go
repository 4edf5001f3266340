// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

func all(types.UID) bool { return true }

// beginIn starts an app in a term; without one the replica only builds it.
func (p *process) beginIn(t *testing.T, name string, term int64) {
	t.Helper()
	p.suspectIn(t, name, term)
	must(t, p.Begin(t.Context(), registry.ClusterName(name), false))
}

func endsOf(e entry) int { return e.suspicion().Ends }

func (p *process) take(t *testing.T, term int64, crashed string) {
	t.Helper()
	must(t, p.Take(t.Context(), all, term, crashed))
}

func (p *process) expectEnds(t *testing.T, why, name string, term int64, want int) {
	t.Helper()
	if got := p.suspectIn(t, name, term); got.Ends != want {
		t.Errorf("%s: %s has %d ends, want %d", why, name, got.Ends, want)
	}
}

// An app that ends one replica after the other has ended three processes when it starts alone, also if one of them began with
// the app before it had the shard.
func TestReplicas_EndsAddUp(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	crashed := ""
	for i, name := range []string{"a", "b", "c"} {
		p := start(name)
		p.take(t, int64(i+1), crashed)
		p.expectEnds(t, name, "poison", int64(i+1), i)
		p.beginIn(t, "poison", int64(i+1))
		p.crash()
		crashed = name
	}
	p := start("a")
	p.take(t, 4, "c")
	p.expectEnds(t, "after three", "poison", 4, SuspectAfter)
	p.Acquit("poison")
	eventually(t, func() error {
		if left := record(); len(left) != 0 {
			return fmt.Errorf("after the acquittal the journal has %+v", left)
		}
		return nil
	})
}

// A crash that two replicas see counts as two: that of the holder, and that of the replica that builds the app meanwhile, which
// counts its own when it starts again. A hub alone that follows counts all.
func TestReplicas_TwoAtATime(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	a, b := start("a"), start("b")
	a.beginIn(t, "poison", 1)
	b.take(t, 0, "")
	b.expectEnds(t, "while the holder runs", "poison", 0, 0)
	b.beginIn(t, "poison", 0)
	if all := record(); all["poison"].By != "a" || all["poison.warm"].By != "b" {
		t.Fatalf("got the records %+v, want a start of each", all)
	}
	c := start("c")
	c.take(t, 0, "")
	c.beginIn(t, "healthy", 0)
	c.LetGo(all)
	eventually(t, func() error {
		if all := record(); len(all) != 2 || all["poison.warm"].By != "b" {
			return fmt.Errorf("got the records %+v after a replica has let go, want those of the others", all)
		}
		return nil
	})
	a.crash()
	b.crash()
	b = start("b")
	b.take(t, 2, "a")
	b.expectEnds(t, "after the crash of both", "poison", 2, 2)
	eventually(t, func() error {
		if all := record(); len(all) != 1 || all["poison"].Term != 2 || endsOf(all["poison"]) != 2 {
			return fmt.Errorf("got the records %+v, want one of the new term with two ends", all)
		}
		return nil
	})
	b.beginIn(t, "poison", 2)
	b.crash()
	alone := start("")
	alone.expectEnds(t, "in a hub alone", "poison", 0, SuspectAfter)
	must(t, alone.begin(t, "poison", false))
	if e := record()["poison"]; e.Term != 0 || e.By != "" {
		t.Errorf("got the record %+v, want one of the hub alone", e)
	}
}

// A replica takes over the ends of its Clusters, and the starts as ends only of a replica that has crashed. An orderly hand-over
// takes a suspicion along. What this process starts itself is no end when it gets the Cluster again.
func TestReplicas_Take(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	a := start("a")
	a.beginIn(t, "crashed", 1)
	a.crash()
	a = start("a")
	a.take(t, 2, "a")
	a.beginIn(t, "starting", 2)
	a.take(t, 3, "a") // It had lost its Lease, and the process runs on.
	a.expectEnds(t, "of this process", "starting", 3, 0)
	a.expectEnds(t, "of the last process", "crashed", 3, 1)
	eventually(t, func() error {
		if all := record(); all["crashed"].Term != 3 || all["starting"].Term != 3 {
			return fmt.Errorf("got the records %+v, want all of the term 3", all)
		}
		return nil
	})
	for i, crashed := range []string{"", "another", "a"} { // The last one counts the end, for all that come later.
		want := i / 2
		b := start("b-after-" + crashed)
		b.take(t, 0, crashed)
		b.expectEnds(t, "taken from "+crashed, "crashed", 0, 1)
		b.expectEnds(t, "taken from "+crashed, "starting", 0, want)
		b.crash()
	}
	b := start("b")
	must(t, b.Take(t.Context(), func(uid types.UID) bool { return uid == "starting" }, 4, "a"))
	b.expectEnds(t, "of the shard", "starting", 4, 1)
	b.expectEnds(t, "of another shard", "crashed", 0, 0)
	eventually(t, func() error {
		if e := record()["starting"]; e.Term != 4 {
			return fmt.Errorf("got the record %+v, want one of the term 4", e)
		}
		return nil
	})
	a.LetGo(all)
	a.End("starting")
	a.end()
	if e := record()["starting"]; e.Term != 4 || e.By != "b" {
		t.Errorf("got the record %+v after the end of the replica that has let go, want that of b", e)
	}
}

// A late write of an earlier holder, or its removal of a record, is written over.
func TestReplicas_LateWrites(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	late, p := start("a"), start("b")
	p.beginIn(t, "a", 2)
	late.beginIn(t, "a", 1)
	late.beginIn(t, "unknown", 1)
	p.suspectIn(t, "unknown", 2) // It has no record.
	for _, removes := range []bool{false, true} {
		if removes {
			late.Forget("a")
			eventually(t, func() error {
				if e, isLeft := record()["a"]; isLeft {
					return fmt.Errorf("the earlier holder has not removed %+v", e)
				}
				return nil
			})
		}
		eventually(t, func() error {
			p.beginIn(t, "other", 2) // The response shows late writes, of which there may be another one.
			all := record()
			if _, isLeft := all["unknown"]; isLeft || all["a"].Term != 2 || all["a"].By != "b" {
				return fmt.Errorf("got the records %+v, want that of b alone", all)
			}
			return nil
		})
	}
	late = start("c")
	late.take(t, 1, "") // It knows of the later holder now.
	late.beginIn(t, "a", 1)
	if e := record()["a"]; e.Term != 2 {
		t.Errorf("got the record %+v after a write in an earlier term, want that of the later term", e)
	}
}

// A Take waits for the API server until its context ends. After it, the apps start.
func TestReplicas_TakeIsBounded(t *testing.T) {
	t.Parallel()
	start, _ := journaling(t)
	p := start("a")
	p.line.set(errCut, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := p.Take(ctx, all, 1, "b")
	testkit.ErrorIs(t, err, context.DeadlineExceeded, "Take")
	testkit.ErrorIs(t, err, errCut, "Take")
	p.suspectIn(t, "x", 1)
	if err := p.Begin(t.Context(), "x", false); !errors.Is(err, errCut) {
		t.Errorf("got error %v, want errCut", err)
	}
	p.line.set(nil, nil)
	eventually(t, func() error { return p.Begin(t.Context(), "x", false) })
}

// A process that meets a Cluster only when it is deleted removes the record that the process before has left.
func TestJournal_ForgetsWhatItNeverStarted(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	before := start("")
	before.beginIn(t, "a", 0)
	before.crash()
	next := start("")
	next.Name("a", "a")
	next.Forget("a")
	eventually(t, func() error {
		if e, isLeft := record()["a"]; isLeft {
			return fmt.Errorf("the record %+v is left", e)
		}
		return nil
	})
}
