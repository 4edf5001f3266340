// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// write is a write of a replica's app to its remote.
type write struct {
	at      time.Time
	replica string
	term    int64
}

// agent matches the user agent of an app's write: the replica, the Cluster, the epoch of the app, and the permission.
var agent = regexp.MustCompile(`^clusterfx/([^/]+)/([^/]+)/\d+/term-(\d+)$`)

// writes returns the writes to the remotes since a time, by Cluster, in the order in which they reached the API server.
func (s *stage) writes(since time.Time) map[string][]write {
	s.t.Helper()
	all := map[string][]write{}
	for _, remote := range s.remotes {
		events, err := remote.AuditEvents(fleet.ByAgent("clusterfx/"), fleet.Since(since), fleet.AuditEvent.Writes)
		must(s.t, err)
		for _, e := range events {
			found := agent.FindStringSubmatch(e.UserAgent)
			if found == nil {
				s.t.Fatalf("a write without a permission: %s", e)
			}
			term, err := strconv.ParseInt(found[3], 10, 64)
			must(s.t, err)
			all[found[2]] = append(all[found[2]], write{at: e.Received, replica: found[1], term: term})
		}
	}
	return all
}

// verdict is what the audit logs say about the writes.
type verdict struct {
	writes    int
	late      []string                 // writes after one of a later permission
	gaps      map[string]time.Duration // the longest time without a write, by Cluster
	replicas  map[string]int           // writes, by replica
	last      map[string]string        // the replica of the last write, by Cluster
	handovers int                      // changes of the permission
}

// judge looks at the writes to all remotes since a time.
func (s *stage) judge(since time.Time) verdict {
	s.t.Helper()
	v := verdict{gaps: map[string]time.Duration{}, replicas: map[string]int{}, last: map[string]string{}}
	for name, all := range s.writes(since) {
		slices.SortStableFunc(all, func(a, b write) int { return a.at.Compare(b.at) })
		highest := all[0].term
		for i, one := range all {
			v.writes++
			v.replicas[one.replica]++
			v.last[name] = one.replica
			switch {
			case one.term < highest:
				v.late = append(v.late, fmt.Sprintf("%s: %s of %s with the permission %d, after one with %d",
					name, one.at.Format(time.StampMicro), one.replica, one.term, highest))
			case one.term > highest:
				highest = one.term
				v.handovers++
			}
			if i > 0 {
				v.gaps[name] = max(v.gaps[name], one.at.Sub(all[i-1].at))
			}
		}
	}
	return v
}
