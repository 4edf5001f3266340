// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// ManagerOptions sets Cache, Client and NewClient. The cache has only metadata of the credentials namespace's Secrets, without
// others' annotations, and all objects without managed fields. The client reads Secrets from the API server, so that no
// credential stays in memory, but their metadata from the cache. The caller adds its kinds to Cache.ByObject.
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

// keepOurs drops annotations of other owners, which include kubectl's copy of the whole Secret.
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

// news drops Secrets that exist when the watch begins: every Cluster is reconciled after that, and reads its Secret.
func news() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// moreThanInventory drops updates of the inventory only, which changes most often; nothing here depends on it.
func moreThanInventory() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, wasCluster := e.ObjectOld.(*hubv1.Cluster)
		after, isCluster := e.ObjectNew.(*hubv1.Cluster)
		if !wasCluster || !isCluster || before.ResourceVersion == after.ResourceVersion {
			return true
		}
		return !equality.Semantic.DeepEqual(withoutInventory(before), withoutInventory(after))
	}}
}

// withoutInventory returns a shallow copy without the fields that change together with an inventory.
func withoutInventory(c *hubv1.Cluster) *hubv1.Cluster {
	rest := *c
	rest.Status.Inventory = hubv1.InventoryStatus{}
	rest.ResourceVersion, rest.ManagedFields = "", nil
	return &rest
}
