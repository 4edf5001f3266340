// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"strconv"
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

// A Cluster of the same name with another UID has a record of its own, which may be in another part, in place of the other's.
func TestJournal_AnotherOfTheName(t *testing.T) {
	t.Parallel()
	start, record := journaling(t)
	p := start("")
	for _, uid := range []types.UID{uidIn(0), uidIn(1)} {
		s, err := p.Suspicion(t.Context(), "a", uid, 0)
		if err != nil || s.Ends != 0 {
			t.Errorf("got %+v and error %v for another Cluster of the name, want no ends", s, err)
		}
		must(t, p.Begin(t.Context(), "a", false))
		eventually(t, func() error {
			if all := record(); len(all) != 1 || all[string(uid)].Starting == 0 {
				return fmt.Errorf("got the records %+v, want the start of %s", all, uid)
			}
			return nil
		})
	}
}

// A part that cannot be written makes no start wait less for its own part.
func TestJournal_FailuresOfAPart(t *testing.T) {
	t.Parallel()
	j := newJournal()
	last := newRound()
	last.errs[0] = errCut
	j.settle(last)
	for part, want := range []error{errCut, nil, nil, nil} {
		name := strconv.Itoa(part)
		uid := uidIn(part)
		j.names[name], j.parts[part].records[uid] = uid, entry{}
		if _, _, err := j.begin(name, false); !errors.Is(err, want) {
			t.Errorf("part %d: got error %v, want %v", part, err, want)
		}
	}
}
