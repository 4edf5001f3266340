// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	ago := func(minutes int) int64 { return now.Add(-time.Duration(minutes) * time.Minute).UnixNano() }
	for name, tc := range map[string]struct{ own, left, want entry }{
		"what was being started is an end": {entry{}, entry{Starting: ago(1)}, entry{Ends: [3]int64{ago(1)}}},
		"what was not is none":             {entry{}, entry{}, entry{}},
		"first ends of two replicas add up": {
			entry{Ends: [3]int64{ago(2)}}, entry{Starting: ago(1)}, entry{Ends: [3]int64{ago(1), ago(2)}},
		},
		"an end that two replicas know is one": {
			entry{Ends: [3]int64{ago(1), ago(3)}}, entry{Ends: [3]int64{ago(1), ago(2)}}, entry{Ends: [3]int64{ago(1), ago(2), ago(3)}},
		},
		"the last ones count":       {entry{Ends: [3]int64{ago(2), ago(3), ago(4)}}, entry{Starting: ago(1)}, entry{Ends: [3]int64{ago(1), ago(2), ago(3)}}},
		"old ones do not":           {entry{Ends: [3]int64{ago(61)}}, entry{Starting: ago(60), Alone: true}, entry{}},
		"the own start stays":       {entry{Starting: ago(0)}, entry{Starting: ago(1)}, entry{Starting: ago(0), Ends: [3]int64{ago(1)}}},
		"who ended it alone did it": {entry{}, entry{Starting: ago(1), Alone: true}, entry{Ends: [3]int64{ago(1)}, Convicted: ago(1)}},
		"a conviction moves along":  {entry{Convicted: ago(5)}, entry{Convicted: ago(2)}, entry{Convicted: ago(2)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := tc.own
			e.adopt(tc.left, true, now)
			e.adopt(tc.left, true, now) // As for another shard.
			if diff := cmp.Diff(tc.want, e, cmp.AllowUnexported(entry{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	e := entry{Ends: [3]int64{ago(1), ago(2)}, Starting: ago(0), Alone: true}
	e.end()
	if e.suspicion() != (Suspicion{Ends: 2}) {
		t.Errorf("the end of a start says something about the ends before it: %+v", e)
	}
	if e.acquit(); !e.isEmpty() {
		t.Errorf("got %+v after an acquittal, want no entry", e)
	}
	if e.adopt(entry{Starting: ago(1)}, false, now); !e.isEmpty() {
		t.Errorf("got %+v of a start of a process that runs, want no entry", e)
	}
}
