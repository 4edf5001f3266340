// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"math/bits"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/sharding"
)

const partCount = 4 // partCount is the number of parts of a journal. It never changes: a Cluster stays in its part.

// Names returns the names of the ConfigMaps of a journal.
func Names(journal string) []string {
	var all []string
	for i := range partCount {
		all = append(all, journal+"-"+strconv.Itoa(i))
	}
	return all
}

// part has the records of a part of the fleet. Journal.mu protects all but store.
type part struct {
	store   configMap // used by the writer only
	entries int
	changes int64 // counts the changes of the records
	kept    int64 // as of which change the records are written
	failure error // of the last write
}

// indexOf: a part is a range of the hashes by which Kubernetes shards objects.
func indexOf(uid string) int {
	hash, err := strconv.ParseUint(sharding.HashField(uid), 16, 64)
	if err != nil {
		return 0
	}
	index, _ := bits.Mul64(hash, partCount)
	return int(index) //nolint:gosec // It is less than partCount.
}

// partOf uses the name for a record without a UID, as of a start that nothing announced. The caller holds mu.
func (j *Journal) partOf(name string, e entry) *part {
	return j.parts[indexOf(cmp.Or(string(e.UID), name))]
}

// update changes the record of a Cluster, and schedules a write within some time if f has changed it. The caller holds mu.
func (j *Journal) update(name string, within time.Duration, f func()) {
	before := j.records[name]
	f()
	after := j.records[name]
	if before == after {
		return
	}
	for _, one := range []struct {
		e    entry
		more int
	}{{before, -1}, {after, 1}} {
		if !one.e.isEmpty() {
			in := j.partOf(name, one.e)
			in.entries += one.more
			in.changes++
		}
	}
	j.wakeWithin(within)
}

// wakeWithin schedules a write. The caller holds mu.
func (j *Journal) wakeWithin(within time.Duration) {
	at := time.Now().Add(within)
	if j.due.IsZero() || at.Before(j.due) {
		j.due = at
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (p *part) isChanged() bool { return p.kept < p.changes }

// recordsOf returns the records in a part. The caller holds mu.
func (j *Journal) recordsOf(p *part) records {
	all := records{}
	for name, e := range j.records {
		if j.partOf(name, e) == p {
			all[name] = e
		}
	}
	return all
}

// write is a write of a part: its records as of a change.
type write struct {
	*part
	change  int64
	records records
	err     error
}

func (j *Journal) pending() []*write {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []*write
	for _, p := range j.parts {
		if p.isChanged() {
			all = append(all, &write{part: p, change: p.changes, records: j.recordsOf(p)})
		}
	}
	return all
}
