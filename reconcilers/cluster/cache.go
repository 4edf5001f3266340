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

// CacheOptions returns the options of the hub manager's cache for Secrets: it holds the Secrets of the credentials
// namespace only, without annotations of other owners and without managed fields. The program puts the options into
// cache.Options.ByObject, together with those of its own kinds.
func CacheOptions(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{namespace: {}},
			Transform:  keepOurs,
		},
	}
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
