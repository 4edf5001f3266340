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
	cluster string
	replica string
	term    int64
	after   int64 // the highest permission that was seen before, if that is later
	// without is the request of a write without a permission, as by a hub that is alone; empty for all others.
	without string
}

func (w write) String() string {
	return fmt.Sprintf("%s: %s of %s with the permission %d, after one with %d", w.cluster, w.at.Format(time.StampMicro), w.replica, w.term, w.after)
}

// agent matches the user agent of an app's write: the replica, the Cluster, the epoch of the app, and the permission.
var agent = regexp.MustCompile(`^clusterfx/([^/]+)/([^/]+)/\d+/term-(\d+)$`)

// writes returns the writes to the remotes since a time, by Cluster, in the order in which they reached the API server.
func (s *stage) writes(since time.Time) map[string][]write {
	s.t.Helper()
	for len(s.audits) < len(s.remotes) {
		s.audits = append(s.audits, s.remotes[len(s.audits)].AuditReader(fleet.ByAgent("clusterfx/"), fleet.AuditEvent.Writes))
	}
	for _, audit := range s.audits {
		events, err := audit.Next()
		must(s.t, err)
		for _, e := range events {
			s.written = append(s.written, s.writeOf(e))
		}
	}
	all := map[string][]write{}
	for _, one := range s.written {
		if !one.at.Before(since) {
			if one.without != "" {
				s.t.Fatalf("a write without a permission: %s", one.without)
			}
			all[one.cluster] = append(all[one.cluster], one)
		}
	}
	return all
}

func (s *stage) writeOf(e fleet.AuditEvent) write {
	s.t.Helper()
	found := agent.FindStringSubmatch(e.UserAgent)
	if found == nil {
		return write{at: e.Received, without: e.String()}
	}
	term, err := strconv.ParseInt(found[3], 10, 64)
	must(s.t, err)
	return write{at: e.Received, cluster: found[2], replica: found[1], term: term}
}

// verdict is what the audit logs say about the writes.
type verdict struct {
	writes    int
	late      []write                  // writes after one of a later permission
	gaps      map[string]time.Duration // the longest time without a write, by Cluster
	replicas  map[string]int           // writes, by replica
	last      map[string]string        // the replica of the last write, by Cluster
	handovers int                      // changes of the permission
}

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
				one.after = highest
				v.late = append(v.late, one)
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
