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
	// DefaultKeyPrefix is the default of Identity.KeyPrefix.
	DefaultKeyPrefix = "sync.clusterfx.dev"
	// DefaultNamePrefix is the default of Identity.NamePrefix, as vcluster has published it, so that a fleet can
	// change its tool and keep its names.
	DefaultNamePrefix = "vcluster"
)

// ErrInvalidIdentity means that an Identity cannot be used.
var ErrInvalidIdentity = errors.New("invalid identity")

// Identity distinguishes the objects of one pair in the downstream cluster. All pairs of one downstream cluster must
// have different ones.
type Identity struct {
	// Tenant names the upstream cluster, a DNS label. Required.
	Tenant string
	// TargetNamespace is the namespace of copies: required by NewNamespaced, a replacement with NewMirror, and a
	// distinction of tenants of one name with NewCluster.
	TargetNamespace string
	// KeyPrefix begins the labels and annotations of copies, a DNS subdomain. Default: DefaultKeyPrefix.
	KeyPrefix string
	// NamePrefix begins names of cluster-scoped copies, a DNS label. Default: DefaultNamePrefix.
	NamePrefix string
	// Owner is an object in TargetNamespace, best with no other purpose, with which Kubernetes deletes the copies
	// there. Copies elsewhere have no owner. Default: none.
	Owner metav1.OwnerReference
}

// WithDefaults returns the identity with defaults. The error wraps ErrInvalidIdentity.
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
	// ManagedBy, Namespace and ControlledBy are labels: the tenant, the original's namespace, and another controller
	// that manages the object.
	ManagedBy, Namespace, ControlledBy string
	// ObjectName and the others are annotations that identify the original.
	ObjectName, ObjectNamespace, ObjectUID, ObjectKind string
	// HostName and HostNamespace are annotations with the copy's own name: if they name another object, a client has
	// copied the marks.
	HostName, HostNamespace string
	// ManagedAnnotations and ManagedLabels are annotations with the keys from the original.
	ManagedAnnotations, ManagedLabels string
	// Fields is an annotation with a hash of the applied paths, without values.
	Fields string
	// Generation is an annotation with the original's generation at the last write.
	Generation string
	// Imported is an annotation of an upstream object made from a downstream object.
	Imported string

	prefix string
}

// Has reports whether a key is a mark, of any pair with the same prefix.
func (k Keys) Has(key string) bool { return strings.HasPrefix(key, k.prefix) }
