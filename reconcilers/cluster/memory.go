// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// memory keeps what each Cluster's Secret came to when it was last read. Most reconciles are not
// about the Secret, and need not read it again: its metadata, which is watched, shows whether it
// is another one. The registry holds the same credentials, so nothing more is kept in memory.
//
// It also decides when a Secret that changes again and again is read.
type memory struct {
	mu       sync.Mutex // protects clusters; held for map operations only
	clusters map[string]remembered
}

// remembered is a reading, and what there is to know of when it was made.
type remembered struct {
	origin
	reading
	read     time.Time // when the Secret was read last
	changed  time.Time // when it was read last because it had changed
	answered bool      // it was read since the remote rejects what was in it
}

// reading is what a Secret came to: a connection, or a refusal.
type reading struct {
	connection kubeconfig.Connection
	refusal    state.Condition
	version    string // resourceVersion of the Secret; empty if there is none
}

// origin is what a connection is made from, by name, and for whom: nothing of what was read for one
// Cluster is used for the next one of its name, which may have come together with another Secret.
type origin struct {
	cluster                         types.UID
	secret                          hubv1.KubeconfigSecretRef
	server, tlsServerName, proxyURL string
}

func originOf(cluster *hubv1.Cluster) origin {
	spec := &cluster.Spec
	return origin{cluster.UID, spec.KubeconfigSecretRef, spec.Server, spec.TLSServerName, spec.ProxyURL}
}

// options returns how the Secret's data are to be read.
func (o origin) options() kubeconfig.Options {
	return kubeconfig.Options{
		Key: o.secret.Key, Context: o.secret.Context,
		Server: o.server, TLSServerName: o.tlsServerName, ProxyURL: o.proxyURL,
	}
}

// readAtMostEvery is how often a Secret is read that does not stop changing. The first change is
// read at once, and of those that come within this time after it the last one.
const readAtMostEvery = 2 * time.Second

// question is what a reconcile wants to know: what the Secret comes to now.
type question struct {
	cluster string
	from    origin
	version string // that the cache has of the Secret; empty if it has none
	now     time.Time

	// Whether the remote accepts what was in the Secret; neither is known of one that cannot be reached.
	accepted, rejected bool
}

// recall returns what is remembered, or ok as false if the Secret must be read. With a time other
// than zero there is something newer in the Secret, which is to be read then.
func (m *memory) recall(q question) (known reading, later time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.clusters[q.cluster]
	if !ok || last.origin != q.from {
		return reading{}, time.Time{}, false
	}
	if q.accepted && last.answered {
		last.answered = false
		m.clusters[q.cluster] = last
	}
	if q.rejected && !last.answered {
		return reading{}, time.Time{}, false // Newer credentials may be there that no watch has told of yet.
	}
	if last.version == q.version {
		return last.reading, time.Time{}, true
	}
	due := last.changed.Add(readAtMostEvery)
	if isOlder(q.version, last.version) { // The cache is behind.
		due = last.read.Add(readAtMostEvery)
	}
	if q.now.Before(due) {
		return last.reading, due, true
	}
	return reading{}, time.Time{}, false
}

// isOlder reports whether one version of a Secret was before another one.
func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// remember keeps the answer to a question.
func (m *memory) remember(q question, answer reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clusters == nil {
		m.clusters = map[string]remembered{}
	}
	last, known := m.clusters[q.cluster]
	next := remembered{origin: q.from, reading: answer, read: q.now, answered: q.rejected}
	if known && last.origin == q.from {
		next.changed, next.answered = last.changed, last.answered || q.rejected
		seen := last.version != q.version && !isOlder(q.version, last.version)
		if seen || last.version != answer.version {
			next.changed = q.now
		}
	}
	m.clusters[q.cluster] = next
}

// quiet returns for how long a change of the Cluster's Secret is not looked at.
func (m *memory) quiet(cluster string, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.clusters[cluster].changed.Add(readAtMostEvery).Sub(now))
}

func (m *memory) forget(cluster string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, cluster)
}

// cachedVersion returns the resourceVersion that the cache has of a Secret, or an empty string if
// it has none. It contacts nobody.
func (r *reconciler) cachedVersion(ctx context.Context, secret client.ObjectKey) string {
	metadata := hubcontroller.SecretMetadata()
	if err := r.Get(ctx, secret, metadata); err != nil {
		return ""
	}
	return metadata.ResourceVersion
}
