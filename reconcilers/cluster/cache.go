// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// ManagerOptions sets Cache and Client. The cache has only metadata of the credentials namespace's Secrets, without others'
// annotations, and all objects without managed fields. The client reads Secrets from the API server, so that no credential stays
// in memory. The caller adds its kinds to Cache.ByObject.
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
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	}
}

// keepOurs drops annotations of other owners, which include kubectl's copy of the whole Secret.
func keepOurs(object any) (any, error) {
	secret, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // A tombstone is not an object; it passes.
	}
	secret.SetManagedFields(nil)
	maps.DeleteFunc(secret.GetAnnotations(), func(key, _ string) bool { return !strings.HasPrefix(key, hubv1.GroupName+"/") })
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
