// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// remembered is the last reading of a Cluster's Secret, with its times. Most reconciles are not about the Secret, and need not read it
// again: its metadata, which is watched, show whether it has changed. The registry holds the same credentials, so that
// this takes no extra space.
type remembered struct {
	origin
	reading
	read     time.Time // when the Secret was read last
	changed  time.Time // when it was read last because it had changed
	answered bool      // it was read again after the remote rejected its credentials
}

// reading is the content of a Secret: a connection, or a refusal.
type reading struct {
	connection kubeconfig.Connection
	refusal    state.Condition
	version    string // resourceVersion of the Secret; empty if there is none
}

// origin names the sources of a connection, and the Cluster that it is for: a reading for one Cluster is not used for
// the next Cluster of the same name, which may have been created together with another Secret.
type origin struct {
	cluster                         types.UID
	secret                          hubv1.KubeconfigSecretRef
	server, tlsServerName, proxyURL string
}

func originOf(cluster *hubv1.Cluster) origin {
	spec := &cluster.Spec
	return origin{cluster.UID, spec.KubeconfigSecretRef, spec.Server, spec.TLSServerName, spec.ProxyURL}
}

// options returns the options for parsing the Secret's data.
func (o origin) options() kubeconfig.Options {
	return kubeconfig.Options{
		Key: o.secret.Key, Context: o.secret.Context,
		Server: o.server, TLSServerName: o.tlsServerName, ProxyURL: o.proxyURL,
	}
}

// readAtMostEvery is the least time between two reads of a Secret that changes continuously. The first change is read
// immediately, and of the changes within this time after it the last one.
const readAtMostEvery = 2 * time.Second

// question is the request of a reconcile for the current content of a Secret.
type question struct {
	from    origin
	version string // resourceVersion of the Secret in the cache; empty if it has none
	now     time.Time

	// Whether the remote accepts or rejects the credentials of the last reading. An unreachable remote does neither.
	accepted, rejected bool
}

// recall returns the last reading, or ok as false if the Secret must be read now. A time other than zero means that the
// Secret has changed and is to be read then.
func (s *seen) recall(q question) (known reading, later time.Time, ok bool) {
	last := s.secret
	if last == nil || last.origin != q.from {
		return reading{}, time.Time{}, false
	}
	last.answered = last.answered && !q.accepted
	if q.rejected && !last.answered {
		return reading{}, time.Time{}, false // The watch may not have delivered newer credentials yet.
	}
	if last.version == q.version {
		return last.reading, time.Time{}, true
	}
	due := last.changed.Add(readAtMostEvery)
	if isOlder(q.version, last.version) { // The cache is stale.
		due = last.read.Add(readAtMostEvery)
	}
	if q.now.Before(due) {
		return last.reading, due, true
	}
	return reading{}, time.Time{}, false
}

// isOlder reports whether version a of a Secret is older than version b.
func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// remember keeps the reading that answers a question.
func (m *memory) remember(s *seen, q question, answer reading) {
	next := &remembered{origin: q.from, reading: answer, read: q.now, answered: q.rejected}
	if last := s.secret; last != nil && last.origin == q.from {
		next.changed, next.answered = last.changed, last.answered || q.rejected
		seen := last.version != q.version && !isOlder(q.version, last.version)
		if seen || last.version != answer.version {
			next.changed = q.now
		}
	}
	s.secret = next
	m.mu.Lock()
	defer m.mu.Unlock()
	s.quiet = next.changed.Add(readAtMostEvery)
}

// cachedVersion returns the resourceVersion that the cache has of a Secret, or an empty string if
// it has none. It sends no requests.
func (r *reconciler) cachedVersion(ctx context.Context, secret client.ObjectKey) string {
	metadata := hubcontroller.SecretMetadata()
	if err := r.Get(ctx, secret, metadata); err != nil {
		return ""
	}
	return metadata.ResourceVersion
}
