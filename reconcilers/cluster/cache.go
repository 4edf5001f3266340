// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// CacheOptions returns what the cache of the hub's manager must be told about Secrets: to hold
// those of the credentials namespace only, without annotations that are not ours and without
// managed fields. The program puts it into cache.Options.ByObject, with its own kinds beside it.
func CacheOptions(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{namespace: {}},
			Transform:  keepOurs,
		},
	}
}

// keepOurs drops what nobody reads from the cache. Among the annotations of others is the one in
// which kubectl keeps a copy of the whole Secret.
func keepOurs(object any) (any, error) {
	secret, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // A tombstone carries no object of its own; let it pass.
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
