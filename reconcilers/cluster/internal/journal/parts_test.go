// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// The UIDs of Clusters spread over the parts, and the parts of known UIDs never change: a hub of a later version must find the
// records of an earlier one.
func TestIndexOf(t *testing.T) {
	t.Parallel()
	const count = 10000
	in := make([]int, partCount)
	for range count {
		in[indexOf(string(uuid.NewUUID()))]++
	}
	for i, n := range in {
		if n < count/partCount*9/10 {
			t.Errorf("part %d has %d of %d UIDs: %v", i, n, count, in)
		}
	}
	for uid, want := range map[string]int{
		"":                                     3,
		"0c5b5d3a-7a04-4e5c-8a2b-3a0f7a1b9c01": 1,
		"5f0e2c1d-93b7-4f66-b0f4-6f7d2f5b8e02": 3,
		"a8d4f6b2-1c3e-4a5b-9d7f-8e6c4b2a0d03": 0,
	} {
		if got := indexOf(uid); got != want {
			t.Errorf("UID %q: got part %d, want %d", uid, got, want)
		}
	}
}

// uidIn returns a UID in a part.
func uidIn(part int) types.UID {
	for {
		if uid := uuid.NewUUID(); indexOf(string(uid)) == part {
			return uid
		}
	}
}

// A change is a write of the ConfigMap with the part of the Cluster. A Cluster of the same name with another UID may be in
// another part, and its record is in one part only.
func TestJournal_WritesWhatHasChanged(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	p := start()
	begin := func(name string, in int) {
		t.Helper()
		_, err := p.Suspicion(t.Context(), name, uidIn(in))
		must(t, err)
		before := p.line.writes.Load()
		must(t, p.Begin(t.Context(), "a", false))
		if n := p.line.writes.Load() - before; n != 1 {
			t.Errorf("got %d writes for a start, want 1", n)
		}
	}
	begin("a", 0)
	p.crash()
	p = start()
	other := uidIn(1)
	s, err := p.Suspicion(t.Context(), "a", other)
	if err != nil || s.Ends != 0 {
		t.Errorf("got %+v and error %v for another Cluster of the name, want no ends", s, err)
	}
	must(t, p.Begin(t.Context(), "a", false))
	if got := record()["a"]; got.Starting == 0 || got.UID != other || got.suspicion().Ends != 0 {
		t.Errorf("got record %+v, want the start of the other Cluster", got)
	}
	eventually(t, func() error { return p.hasIn(t, 0, 0) })
	eventually(t, func() error { return p.hasIn(t, 1, 1) })
}

// hasIn returns an error unless the ConfigMap of a part has a number of entries.
func (p *process) hasIn(t *testing.T, part, want int) error {
	t.Helper()
	s := p.parts[part].store
	kept, err := (&configMap{live: s.live, key: s.key}).read(t.Context())
	if err == nil && len(kept) != want {
		err = fmt.Errorf("part %d has %+v, want %d entries", part, kept, want)
	}
	return err
}

// A part that cannot be written makes no start wait less for its own part.
func TestJournal_FailuresOfAPart(t *testing.T) {
	t.Parallel()
	j := &Journal{turn: make(chan struct{}), ready: make(chan struct{})}
	for range partCount {
		j.parts = append(j.parts, &part{changes: 1})
	}
	_ = j.settle([]*write{{part: j.parts[0], change: 1, err: errCut}, {part: j.parts[1], change: 1}}, nil)
	if _, _, err := j.outcome(j.parts[0], 1); !errors.Is(err, errCut) {
		t.Errorf("got error %v for the part that failed", err)
	}
	if done, _, err := j.outcome(j.parts[1], 1); !done || err != nil {
		t.Errorf("the part that was written: done is %t, the error %v", done, err)
	}
	if _, turn, err := j.outcome(j.parts[2], 1); turn == nil || err != nil {
		t.Errorf("the part that was not written yet does not wait: error %v", err)
	}
	_ = j.settle(nil, errCut)
	if _, _, err := j.outcome(j.parts[2], 1); !errors.Is(err, errCut) {
		t.Errorf("got error %v while the journal cannot be read", err)
	}
}
