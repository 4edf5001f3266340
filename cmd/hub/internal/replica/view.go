// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// view is what a life has read beyond its Machine.
type view struct {
	leases     map[string]sighting // of other replicas
	assignment assignment
	hasLeases  bool // the watch of Leases has delivered its first list
	hasWishes  bool // the watch of ConfigMaps has, too
}

// sighting has since when the version is unchanged.
type sighting struct {
	version string
	since   time.Time
	labels  map[string]string // of the replica
	tunnel  string            // of the replica
	created time.Time         // by the clock of the API server
}

// isOlder: an event may arrive after the response to a later write. Only efficiency depends on it: incomparable is not older.
func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

func (l *life) see(lease *coordinationv1.Lease) {
	switch lease.Labels[label] {
	case labelRecord:
		l.seeRecord(lease)
	case labelReplica:
		l.seeLease(lease.Name, lease)
	}
}

func (l *life) seeRecord(lease *coordinationv1.Lease) {
	shard, r, err := decodeRecord(lease, l.options.Count)
	if err != nil {
		l.log.Error(err, "Ignored a record that cannot be decoded; its holder writes it again", "object", lease.Name)
		l.seeDamaged(lease.Name)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch known := l.machine.Record(shard); {
	case isOlder(r.Version, known.Version):
	case r.Epoch < known.Epoch:
		l.machine.Damaged(shard)
	default:
		l.machine.SeeRecord(shard, r)
	}
}

// seeDamaged: the object is not the record that it should be, or is missing.
func (l *life) seeDamaged(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for shard := range l.options.Count + 1 {
		if recordName(shard) == name {
			l.machine.Damaged(shard)
		}
	}
}

// seeDeleted gets an object of the watch as it was at last. A list shows only that an object is missing.
func (l *life) seeDeleted(lease *coordinationv1.Lease) {
	shard, r, err := decodeRecord(lease, l.options.Count)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.machine.Record(shard); !isOlder(r.Version, known.Version) && r.Epoch >= known.Epoch {
		l.machine.Deleted(shard, r)
	}
}

func (l *life) seeLease(name string, lease *coordinationv1.Lease) {
	decoded, err := decodeLease(lease)
	if err != nil || name == l.me { // The Machine learns its own Lease from reads only, see keepLease.
		return
	}
	now := present()
	l.mu.Lock()
	defer l.mu.Unlock()
	known, isKnown := l.view.leases[name]
	switch {
	case lease == nil:
		delete(l.view.leases, name)
	case !isKnown || known.version != decoded.Version:
		if isOlder(decoded.Version, known.version) {
			return
		}
		l.view.leases[name] = sighting{decoded.Version, now.Monotonic, labelsOf(lease), lease.Annotations[annotationTunnel], lease.CreationTimestamp.Time}
	}
	l.machine.SeeLease(name, decoded, now)
	if lease == nil {
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
