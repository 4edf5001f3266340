// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// ownerIn returns the owner that SetOwner has set.
func TestOwnerIn(t *testing.T) {
	t.Parallel()
	inNamespace, everywhere := &corev1.ConfigMap{}, &rbacv1.ClusterRole{}
	inNamespace.Namespace, inNamespace.Name = "team-a", "kube-root-ca.crt"
	everywhere.Name = "system:node"
	for kind, owner := range map[schema.GroupKind]client.Object{
		{Kind: "ConfigMap"}: inNamespace,
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}: everywhere,
	} {
		object := &corev1.Secret{}
		testkit.Must(t, SetOwner(owner, object, clientgoscheme.Scheme))
		if key, ok := ownerIn(object, kind); !ok || key != client.ObjectKeyFromObject(owner) {
			t.Errorf("owner of %v: got %v (%t)", object.Annotations, key, ok)
		}
	}
}

// A user with permission to write an object can write its annotation: ownerIn ignores text that is not an owner.
func TestOwnerIn_Strangers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "ConfigMap", "ConfigMap/", "ConfigMap/ns", "ConfigMap/ns/", "ConfigMap/ns/..", "ConfigMap/ns/a/b", "ConfigMap/../a",
		"ConfigMap/NS/a", "ConfigMap.apps/ns/a", "Secret/ns/a",
	} {
		object := &corev1.Secret{}
		object.Annotations = map[string]string{OwnerAnnotation: text}
		if key, ok := ownerIn(object, schema.GroupKind{Kind: "ConfigMap"}); ok {
			t.Errorf("%q: got owner %v", text, key)
		}
	}
}
