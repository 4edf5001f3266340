// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"maps"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

type memory struct {
	mu       sync.Mutex // protects the fields, and shared of each seen; held for map operations only
	clusters map[string]*seen
	awaited  int // Clusters with isAwaited
}

// seen belongs to the reconcile of its Cluster, of which there is one at a time; what others read is in shared.
type seen struct {
	name string
	shared
	timing
	// written is what the hub wrote last, until the cache has it. Otherwise each step would wait for the watch, or repeat a write
	// that conflicts; a busy API server ends slow watches, which takes seconds.
	written *hubv1.Cluster
	left    leftOut
	posted  posted
	secret  *remembered // the last reading of its Secret
}

// leftOut is a status of which the CRD lacks fields, so that it is not written again to the version that it led to.
type leftOut struct {
	version string
	status  hubv1.ClusterStatus
}

// shared needs the lock of the memory.
type shared struct {
	secretName string   // the Secret that the Cluster names, as of its last reconcile; empty without a use for it
	removal    *removal // of its remote; nil if there is none
	isAwaited  bool     // it comes before new Clusters
}

// posted tells a desired state from others.
type posted struct {
	revision, id        string
	labels, annotations map[string]string
}

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
		s.secretName, s.timing, s.written, s.left, s.secret = "", timing{}, nil, leftOut{}, nil
		return
	}
	if m.clusters[s.name] == s {
		delete(m.clusters, s.name)
	}
}

func (m *memory) use(s *seen, secret string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.secretName = secret
}

// usersOf requests the Clusters that name a Secret. One that was not reconciled since it names the Secret reads it then.
func (m *memory) usersOf(_ context.Context, secret client.Object) (all []ctrl.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, s := range m.clusters {
		if s.secretName == secret.GetName() {
			all = append(all, ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		}
	}
	return all
}

// begin puts Clusters with a recorded identity before new ones: they were Ready, and of two Clusters for one remote the known one
// has it. No reconcile waits, so new ones wait no longer than the caches took to fill.
//
// The registry's ranks order what waits for a slot. While slots are free, a new Cluster for a known Cluster's remote would run
// until the known one is posted, so both orders are needed.
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

func (m *memory) looked(s *seen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.isAwaited {
		s.isAwaited = false
		m.awaited--
	}
}

func (m *memory) mustWait(cluster *hubv1.Cluster) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !isKnown(cluster) && m.awaited > 0
}

func isKnown(cluster *hubv1.Cluster) bool { return cluster.Annotations[hubv1.AnnotationID] != "" }

func (s *seen) latest(cached *hubv1.Cluster) *hubv1.Cluster {
	if s.written != nil && isOlder(cached.ResourceVersion, s.written.ResourceVersion) {
		return s.written.DeepCopy()
	}
	s.written = nil
	return cached
}

func (s *seen) notePosted(config state.Desired) {
	s.posted = posted{config.Revision, config.Identity.Known, maps.Clone(config.Labels), maps.Clone(config.Annotations)}
}

// hasPosted: the registry works on the state. A remote may end because the hub does: the registry tells.
func (s *seen) hasPosted(config state.Desired, info registry.Status) bool {
	return info.State != state.StateStopping && info.State != state.StateStopped && info.Revision == config.Revision &&
		s.posted.revision == config.Revision && s.posted.id == config.Identity.Known &&
		maps.Equal(s.posted.labels, config.Labels) && maps.Equal(s.posted.annotations, config.Annotations)
}
