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
		in[indexOf(uuid.NewUUID())]++
	}
	for i, n := range in {
		if n < count/partCount*9/10 {
			t.Errorf("part %d has %d of %d UIDs: %v", i, n, count, in)
		}
	}
	for uid, want := range map[types.UID]int{
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
		if uid := uuid.NewUUID(); indexOf(uid) == part {
			return uid
		}
	}
}

// A start is a write of one ConfigMap. A Cluster of the same name with another UID has a record of its own, in place of the other.
func TestJournal_WritesWhatHasChanged(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	p := start("")
	for _, uid := range []types.UID{uidIn(0), uidIn(1)} {
		s, err := p.Suspicion(t.Context(), "a", uid, 0)
		if err != nil || s.Ends != 0 {
			t.Errorf("got %+v and error %v for another Cluster of the name, want no ends", s, err)
		}
		before := p.line.writes.Load()
		must(t, p.Begin(t.Context(), "a", false))
		if n := p.line.writes.Load() - before; n > 2 { // The removal of the other's record may be one.
			t.Errorf("got %d writes for a start, want 1", n)
		}
		eventually(t, func() error {
			if all := record(); len(all) != 1 || all[string(uid)].Starting == 0 {
				return fmt.Errorf("got the records %+v, want the start of %s", all, uid)
			}
			return nil
		})
		p.crash()
		p = start("")
	}
}

// A part that cannot be written makes no start wait less for its own part.
func TestJournal_FailuresOfAPart(t *testing.T) {
	t.Parallel()
	j := &Journal{turn: make(chan struct{}), ready: make(chan struct{})}
	for range partCount {
		j.parts = append(j.parts, &part{changes: 1, records: map[types.UID]entry{}})
	}
	_ = j.settle([]*write{{part: j.parts[0], number: 1, err: errCut}, {part: j.parts[1], number: 1}}, nil)
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
