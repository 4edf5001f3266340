// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// view is what a life has read, as far as the Machine does not have it. Its objects must not be changed.
type view struct {
	own        *coordinationv1.Lease
	leases     map[string]*coordinationv1.Lease // of other replicas
	records    []*coordinationv1.Lease          // in the versions that the Machine has
	versions   []string                         // of each record, as it was seen last, also if it was damaged or missing then
	assignment assignment
	hasLeases  bool // the watch of Leases has delivered its first list
	hasWishes  bool // the watch of ConfigMaps has, too
}

// isOlder: an event may arrive after the response to a later write, and a response after the event of a later damage. No safety
// depends on it: incomparable is not older.
func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

func (l *life) see(object any) {
	switch o := object.(type) {
	case *corev1.ConfigMap:
		l.seeAssignment(o)
	case *coordinationv1.Lease:
		switch o.Labels[label] {
		case labelRecord:
			l.seeRecord(o)
		case labelReplica:
			l.seeLease(o.Name, o)
		}
	}
}

func (l *life) seeRecord(lease *coordinationv1.Lease) {
	shard, r, err := decodeRecord(lease, l.options.Count)
	if err != nil {
		l.log.Error(err, "Ignored a record that cannot be decoded; its holder writes it again", "object", lease.Name)
		l.seeMissing(lease.Name, lease.ResourceVersion)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if isOlder(r.Version, l.view.versions[shard]) {
		return
	}
	if l.view.versions[shard] = r.Version; r.Epoch < l.machine.Record(shard).Epoch {
		l.machine.Damaged(shard)
	} else {
		l.machine.SeeRecord(shard, r)
	}
	if l.machine.Record(shard) == r {
		l.view.records[shard] = lease
	}
}

// seeMissing: in a version, an object is missing, or not what it should be.
func (l *life) seeMissing(name, version string) {
	number, isRecord := strings.CutPrefix(name, recordPrefix+"-")
	switch shard, err := strconv.Atoi(number); {
	case name == assignmentName:
		l.seeAssignment(nil)
	case !isRecord:
		l.seeLease(name, nil)
	case err == nil && shard >= 0 && shard <= l.options.Count:
		l.mu.Lock()
		defer l.mu.Unlock()
		if !isOlder(version, l.view.versions[shard]) {
			l.view.versions[shard] = version
			l.machine.Damaged(shard)
		}
	}
}

// seeDeleted gets a record of the watch as it was at last. A list shows only that it is missing.
func (l *life) seeDeleted(lease *coordinationv1.Lease) {
	shard, r, err := decodeRecord(lease, l.options.Count)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isOlder(r.Version, l.view.versions[shard]) && r.Epoch >= l.machine.Record(shard).Epoch {
		l.machine.Deleted(shard, r)
		l.view.records[shard] = lease
	}
}

// seeLease takes nil for a Lease that is missing. The Machine learns its own one from reads only, see keepLease.
func (l *life) seeLease(name string, lease *coordinationv1.Lease) {
	decoded, err := decodeLease(lease)
	now := present()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch known := l.view.leases[name]; {
	case name == l.me:
		l.heard = now.Monotonic
		return
	case err != nil, lease != nil && known != nil && isOlder(decoded.Version, known.ResourceVersion):
		return
	}
	l.machine.SeeLease(name, decoded, now)
	if l.view.leases[name] = lease; lease == nil {
		delete(l.view.leases, name)
		l.machine.ForgetLease(name)
	}
}

func (l *life) seeAssignment(m *corev1.ConfigMap) {
	a := decodeAssignment(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if m != nil && isOlder(a.version, l.view.assignment.version) {
		return
	}
	if m == nil { // The wishes of administrators go into the next one.
		a.drained = l.view.assignment.drained
	}
	l.view.assignment = a
	l.machine.SeeAssignment(a.names, a.drained)
}
