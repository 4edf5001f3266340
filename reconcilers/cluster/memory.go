// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"sync"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// memory is what this process knows of the Clusters beside the cache. The zero value knows nothing.
type memory struct {
	mu       sync.Mutex // protects the fields, and shared of each seen; held for map operations only
	clusters map[string]*seen
	awaited  int // Clusters with isAwaited
}

// seen is what this process knows of one Cluster. It belongs to the reconcile of the Cluster, of which there is one at a time; what
// others read is in shared.
type seen struct {
	name string
	shared
	timing
	// written is the Cluster as the last write of the hub has left it, until the cache has it, too. Otherwise each step of a
	// reconcile would wait for the watch to report the one before, and a reconcile for another reason would repeat a write, which
	// could only conflict. An API server that is short of time ends watches that cannot keep up, so that may take seconds.
	written *hubv1.Cluster
	posted  posted
	secret  *remembered // the last reading of its Secret
}

// shared is the part of a seen that is read, and written, with the lock of the memory.
type shared struct {
	secretName string    // the Secret that the Cluster names, as of its last reconcile; empty without a use for it
	quiet      time.Time // until when changes of the Secret wait for one read of it
	removal    *removal  // of its remote; nil if there is none
	isAwaited  bool      // it comes before new Clusters
}

// posted tells a desired state from others.
type posted struct {
	revision, id        string
	labels, annotations map[string]string
}

// of returns what is known of a Cluster.
func (m *memory) of(name string) *seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.clusters[name]
	if s == nil {
		s = &seen{name: name}
		if m.clusters == nil {
			m.clusters = map[string]*seen{}
		}
		m.clusters[name] = s
	}
	return s
}

// forget forgets a Cluster that is gone, but for its removal while that is in progress.
func (m *memory) forget(s *seen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.removal != nil {
		s.secretName, s.timing, s.written, s.secret = "", timing{}, nil, nil
		return
	}
	if m.clusters[s.name] == s {
		delete(m.clusters, s.name)
	}
}

// use notes the Secret whose changes concern a Cluster; empty for none.
func (m *memory) use(s *seen, secret string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.secretName = secret
}

// usersOf returns the Clusters that name a Secret, and for how long its change is left for the read of a later one.
func (m *memory) usersOf(secret string, now time.Time) map[string]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	users := map[string]time.Duration{}
	for name, s := range m.clusters {
		if s.secretName == secret {
			users[name] = max(0, s.quiet.Sub(now))
		}
	}
	return users
}

// begin notes the Clusters that a hub finds when it starts. It reconciles those with a recorded identity before it reconciles new ones:
// they were Ready before, and of two Clusters for one remote the known Cluster has the remote. A reconcile does not wait, so that new
// Clusters wait no longer than the caches took to fill.
//
// The ranks of the registry's start queue do not replace this order, and this order does not replace the ranks. The ranks
// order requests that wait for a slot: while slots are free, a new Cluster that is posted first starts first, and a
// second Cluster for the remote of a known Cluster would run there until the known Cluster is posted.
func (m *memory) begin(all []hubv1.Cluster, now time.Time) {
	for i := range all {
		s := m.of(all[i].Name)
		s.await(&all[i], now)
		if isKnown(&all[i]) {
			s.isAwaited = true // Nobody else has it yet.
			m.awaited++
		}
	}
}

// looked notes that a Cluster was looked at.
func (m *memory) looked(s *seen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.isAwaited {
		s.isAwaited = false
		m.awaited--
	}
}

// mustWait reports whether others come before a Cluster.
func (m *memory) mustWait(cluster *hubv1.Cluster) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !isKnown(cluster) && m.awaited > 0
}

func isKnown(cluster *hubv1.Cluster) bool { return cluster.Annotations[hubv1.AnnotationID] != "" }

// latest returns the later one of a Cluster from the cache and the one that was written last.
func (s *seen) latest(cached *hubv1.Cluster) *hubv1.Cluster {
	if s.written != nil && isOlder(cached.ResourceVersion, s.written.ResourceVersion) {
		return s.written.DeepCopy()
	}
	s.written = nil
	return cached
}

// notePosted notes a desired state that the registry has.
func (s *seen) notePosted(config state.Desired) {
	s.posted = posted{config.Revision, config.Identity.Known, maps.Clone(config.Labels), maps.Clone(config.Annotations)}
}

// hasPosted reports whether the registry works on a desired state, given a snapshot of the remote. A remote that ends may do so because
// the hub does: the registry tells.
func (s *seen) hasPosted(config state.Desired, info registry.Status) bool {
	return info.State != state.StateStopping && info.State != state.StateStopped && shows(info, config) &&
		s.posted.revision == config.Revision && s.posted.id == config.Identity.Known &&
		maps.Equal(s.posted.labels, config.Labels) && maps.Equal(s.posted.annotations, config.Annotations)
}
