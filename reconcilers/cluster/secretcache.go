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

// remembered is the last reading of a Secret: its watched metadata show a change. The registry holds the same, so no extra space.
type remembered struct {
	origin
	reading
	read     time.Time // when the Secret was read last
	changed  time.Time // when it was read last because it had changed
	answered bool      // it was read again after the remote rejected its credentials
}

type reading struct {
	connection kubeconfig.Connection
	refusal    state.Condition
	version    string // resourceVersion of the Secret; empty if there is none
}

// origin is a version of the spec of a Cluster, which has the sources of the connection: the next Cluster of that name may have come
// with another Secret.
type origin struct {
	cluster    types.UID
	generation int64
}

// OptionsOf returns how the Secret of a Cluster is read.
func OptionsOf(cluster *hubv1.Cluster) kubeconfig.Options {
	spec := &cluster.Spec
	options := kubeconfig.Options{
		Key: spec.KubeconfigSecretRef.Key, Context: spec.KubeconfigSecretRef.Context,
		Server: spec.Server, TLSServerName: spec.TLSServerName, ProxyURL: spec.ProxyURL,
	}
	if spec.Via == hubv1.ViaTunnel {
		options.Tunnel = cluster.Name
	}
	return options
}

// readAtMostEvery is for a Secret that changes continuously: the first change is read at once, then the last in each interval.
const readAtMostEvery = 2 * time.Second

type question struct {
	from    origin
	version string // resourceVersion of the Secret in the cache; empty if it has none
	now     time.Time

	// Whether the remote accepts or rejects the credentials of the last reading. An unreachable remote does neither.
	accepted, rejected bool
}

// recall is not ok if the Secret must be read now; a time says that it has changed and is to be read then.
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

func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

func (s *seen) remember(q question, answer reading) {
	next := &remembered{origin: q.from, reading: answer, read: q.now, answered: q.rejected}
	if last := s.secret; last != nil && last.origin == q.from {
		next.changed, next.answered = last.changed, last.answered || q.rejected
		seen := last.version != q.version && !isOlder(q.version, last.version)
		if seen || last.version != answer.version {
			next.changed = q.now
		}
	}
	s.secret = next
}

// cachedVersion is "" if the cache has no such Secret. It sends no requests.
func (r *reconciler) cachedVersion(ctx context.Context, secret client.ObjectKey) string {
	metadata := hubcontroller.SecretMetadata()
	if err := r.cache.Get(ctx, secret, metadata); err != nil {
		return ""
	}
	return metadata.ResourceVersion
}
