// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// ManagerOptions returns the options of the hub's manager, of which Cache, Client and NewClient are set. Its cache has the metadata
// of Secrets of the credentials namespace only, without annotations of other owners, and all objects without managed fields. Its
// client reads a Secret from the API server, so that no credential stays in memory, and the metadata of a Secret from the cache. The
// caller adds the options of its own kinds to Cache.ByObject.
func ManagerOptions(namespace string) ctrl.Options {
	return ctrl.Options{
		Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}: {
					Namespaces: map[string]cache.Config{namespace: {}},
					Transform:  keepOurs,
				},
			},
			DefaultTransform: cache.TransformStripManagedFields(),
		},
		Client:    client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		NewClient: newClient,
	}
}

// newClient returns a client that reads the metadata of Secrets from the cache.
func newClient(config *rest.Config, o client.Options) (client.Client, error) {
	inner, err := client.New(config, o)
	if err != nil || o.Cache == nil || o.Cache.Reader == nil {
		return inner, err
	}
	return &metadataReader{Client: inner, cache: o.Cache.Reader}, nil
}

// metadataReader reads the metadata of Secrets from the cache: CacheOptions.DisableFor applies to the metadata of a kind, too.
type metadataReader struct {
	client.Client
	cache client.Reader
}

// Get reads an object.
func (r *metadataReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	if metadata, ok := obj.(*metav1.PartialObjectMetadata); ok && metadata.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret") {
		return r.cache.Get(ctx, key, obj, o...)
	}
	return r.Client.Get(ctx, key, obj, o...)
}

// List reads a list of objects.
func (r *metadataReader) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	metadata, ok := list.(*metav1.PartialObjectMetadataList)
	if ok && metadata.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("SecretList") {
		return r.cache.List(ctx, list, o...)
	}
	return r.Client.List(ctx, list, o...)
}

// keepOurs drops the parts of an object that the hub does not read. The annotations of other owners include the one in
// which kubectl keeps a copy of the whole Secret.
func keepOurs(object any) (any, error) {
	secret, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // A tombstone is not an object; it passes.
	}
	secret.SetManagedFields(nil)
	kept := map[string]string{}
	for key, value := range secret.GetAnnotations() {
		if strings.HasPrefix(key, hubv1.GroupName+"/") {
			kept[key] = value
		}
	}
	secret.SetAnnotations(kept)
	return object, nil
}
