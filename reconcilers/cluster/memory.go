// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// memory keeps the connection that was last made of each Cluster's Secret. Most reconciles are not
// about the Secret, and need not read it again: its metadata, which is watched, shows whether it
// is another one. The registry holds the same credentials, so nothing more is kept in memory.
type memory struct {
	mu       sync.Mutex // protects clusters; held for map operations only
	clusters map[string]remembered
}

type remembered struct {
	origin
	versioned
}

// origin is what a connection is made from, by name.
type origin struct {
	secret                          hubv1.KubeconfigSecretRef
	server, tlsServerName, proxyURL string
}

func originOf(spec *hubv1.ClusterSpec) origin {
	return origin{spec.KubeconfigSecretRef, spec.Server, spec.TLSServerName, spec.ProxyURL}
}

// options returns how the Secret's data are to be read.
func (o origin) options() kubeconfig.Options {
	return kubeconfig.Options{
		Key: o.secret.Key, Context: o.secret.Context,
		Server: o.server, TLSServerName: o.tlsServerName, ProxyURL: o.proxyURL,
	}
}

// versioned is a connection with the resourceVersion of the Secret that it was made from.
type versioned struct {
	kubeconfig.Connection
	version string
}

// recall returns what was remembered of a Cluster, if it was made from the same Secret in the same
// version and way.
func (m *memory) recall(cluster string, from origin, version string) (versioned, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.clusters[cluster]
	return last.versioned, ok && last.origin == from && last.version == version
}

func (m *memory) remember(cluster string, from origin, c versioned) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clusters == nil {
		m.clusters = map[string]remembered{}
	}
	m.clusters[cluster] = remembered{from, c}
}

func (m *memory) forget(cluster string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, cluster)
}

// cachedVersion returns the resourceVersion that the cache has of a Secret, or an empty string if
// it has none. It contacts nobody.
func (r *reconciler) cachedVersion(ctx context.Context, secret client.ObjectKey) string {
	metadata := secretMetadata()
	if err := r.Get(ctx, secret, metadata); err != nil {
		return ""
	}
	return metadata.ResourceVersion
}

// secretMetadata returns what to read the metadata of a Secret into.
func secretMetadata() *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return metadata
}
