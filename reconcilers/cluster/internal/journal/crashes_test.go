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
		"of two Clusters of a name the later one counts": {
			entry{UID: "u", Ends: [3]int64{ago(2)}}, entry{UID: "v", Starting: ago(1)}, entry{UID: "v", Ends: [3]int64{ago(1)}},
		},
		"and not the earlier one":                  {entry{UID: "u", Ends: [3]int64{ago(1)}}, entry{UID: "v", Starting: ago(2)}, entry{UID: "u", Ends: [3]int64{ago(1)}}},
		"a start of a new Cluster of a name stays": {entry{UID: "u", Starting: ago(0)}, entry{UID: "v", Starting: ago(1)}, entry{UID: "u", Starting: ago(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := records{}
			l.put("a", tc.own)
			l.adopt("a", tc.left, now)
			l.adopt("a", tc.left, now) // As for another shard.
			if diff := cmp.Diff(tc.want, l["a"]); diff != "" {
				t.Error(diff)
			}
		})
	}
	l := records{"a": {Ends: [3]int64{ago(1), ago(2)}}}
	l.begin("a", "", now, true)
	l.end("a")
	if l["a"].suspicion() != (Suspicion{Ends: 2}) {
		t.Errorf("the end of a start says something about the ends before it: %+v", l)
	}
	if l.acquit("a"); len(l) != 0 {
		t.Errorf("got %+v after an acquittal, want no entry", l)
	}
}
