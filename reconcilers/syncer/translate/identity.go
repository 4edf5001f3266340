// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// DefaultKeyPrefix is the prefix of the marks unless Identity.KeyPrefix is set.
	DefaultKeyPrefix = "sync.clusterfx.dev"
	// DefaultNamePrefix begins the names of cluster-scoped copies unless Identity.NamePrefix is set. It is the prefix that
	// vcluster has published, so that a fleet can change its tool and keep its names.
	DefaultNamePrefix = "vcluster"
)

// ErrInvalidIdentity is the error of an Identity that cannot be used.
var ErrInvalidIdentity = errors.New("invalid identity")

// Identity distinguishes the objects of one pair in the downstream cluster from all other objects there. All pairs with the
// same downstream cluster need different identities. The process has no identity: each pair has one.
type Identity struct {
	// Tenant names the upstream cluster in the downstream cluster: a DNS label. Required.
	Tenant string
	// TargetNamespace is the namespace of the copies of namespaced objects. NewNamespaced requires it; with NewCluster it
	// distinguishes tenants of the same name, and with NewMirror it replaces the namespace of the original if it is set.
	TargetNamespace string
	// KeyPrefix is the prefix of the labels and annotations that mark a copy, a DNS subdomain. Default: DefaultKeyPrefix.
	KeyPrefix string
	// NamePrefix begins the names of cluster-scoped copies, a DNS label. Default: DefaultNamePrefix.
	NamePrefix string
	// Owner is an object in the TargetNamespace that owns the copies in that namespace, so that Kubernetes deletes them with
	// the owner. Copies elsewhere have no owner, since Kubernetes deletes objects whose owner has another namespace. Choose an object with no other purpose. Default: none, no owner reference is set.
	Owner metav1.OwnerReference
}

// WithDefaults returns the identity with its defaults. The error wraps ErrInvalidIdentity.
func (id Identity) WithDefaults() (Identity, error) {
	id.setDefaults()
	for _, check := range []struct {
		what, value string
		problems    []string
	}{
		{"Tenant", id.Tenant, validation.IsDNS1123Label(id.Tenant)},
		{"KeyPrefix", id.KeyPrefix, validation.IsDNS1123Subdomain(id.KeyPrefix)},
		{"NamePrefix", id.NamePrefix, validation.IsDNS1123Label(id.NamePrefix)},
		{"TargetNamespace", id.TargetNamespace, unlessEmpty(id.TargetNamespace)},
	} {
		if len(check.problems) > 0 {
			return id, fmt.Errorf("%w: %s %q: %s", ErrInvalidIdentity, check.what, check.value, strings.Join(check.problems, "; "))
		}
	}
	return id, nil
}

func (id *Identity) setDefaults() {
	id.KeyPrefix = cmp.Or(id.KeyPrefix, DefaultKeyPrefix)
	id.NamePrefix = cmp.Or(id.NamePrefix, DefaultNamePrefix)
}

func unlessEmpty(namespace string) []string {
	if namespace == "" {
		return nil
	}
	return validation.IsDNS1123Label(namespace)
}

// Keys returns the keys of the marks.
func (id Identity) Keys() Keys {
	base := cmp.Or(id.KeyPrefix, DefaultKeyPrefix)
	prefix := base + "/"
	return Keys{
		ManagedBy: base + managedBy, Namespace: prefix + "namespace", ControlledBy: prefix + "controlled-by",
		ObjectName: base + objectName, ObjectNamespace: prefix + "object-namespace",
		ObjectUID: prefix + "object-uid", ObjectKind: prefix + "object-kind",
		HostName: base + hostName, HostNamespace: base + hostNamespace,
		ManagedAnnotations: prefix + "managed-annotations", ManagedLabels: prefix + "managed-labels",
		Fields: prefix + "applied-fields", Generation: prefix + "object-generation", Imported: prefix + "imported-from",
		prefix: prefix,
	}
}

// Keys are the keys of the marks.
type Keys struct {
	// ManagedBy, Namespace and ControlledBy are labels: the tenant, the namespace of the original, and a controller other
	// than the pair that manages the object.
	ManagedBy, Namespace, ControlledBy string
	// ObjectName, ObjectNamespace, ObjectUID and ObjectKind are annotations that identify the original.
	ObjectName, ObjectNamespace, ObjectUID, ObjectKind string
	// HostName and HostNamespace are annotations with the name of the copy itself. An object whose annotations name another
	// object was copied by somebody together with its marks.
	HostName, HostNamespace string
	// ManagedAnnotations and ManagedLabels are annotations with the keys that come from the original.
	ManagedAnnotations, ManagedLabels string
	// Fields is an annotation with a hash of the paths of the fields that the pair applies; it contains no values.
	Fields string
	// Generation is an annotation with the generation of the original when the copy was written last, if it has one.
	Generation string
	// Imported is an annotation of an upstream object that was made from a downstream object.
	Imported string

	prefix string
}

// Has reports whether a key is a mark, of this pair or of another one with the same prefix.
func (k Keys) Has(key string) bool { return strings.HasPrefix(key, k.prefix) }
