// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/names"
)

// Translator translates names and metadata of one kind. Its methods send no requests and may be called from any
// goroutine.
type Translator[T client.Object] interface {
	// ToDownstream returns the names that a copy may have, in the order of trial; the second is for when another copy
	// has the first. None: the object cannot have a copy.
	ToDownstream(up types.NamespacedName) []types.NamespacedName
	// ToUpstream returns the name of the original, and false if down is not a copy of the pair.
	ToUpstream(down T) (types.NamespacedName, bool)
	// Owner decides whose down is. uid is the upstream object's, empty if that is absent.
	Owner(down T, uid types.UID) Ownership
	// Metadata returns a copy of up with the metadata of its downstream copy, without fields that the upstream API
	// server has allocated. Marks depend only on name, UID, generation, labels and annotations: a pair also passes an
	// object with nothing else.
	Metadata(up T, to types.NamespacedName) T
	// MetadataUpdate is for writers that update or patch: upstream decides about keys that come from it, all others
	// stay. changed is false if nothing differs.
	MetadataUpdate(up, down T) (changed bool, annotations, labels map[string]string)
}

// Options change a translator. The zero Options are the defaults.
type Options struct {
	// Kind is the kind of the objects. Default: the pair's. Until one is known, Owner and ToUpstream panic.
	Kind schema.GroupVersionKind
	// ExcludedAnnotations are not copied. Default: only the reserved ones.
	ExcludedAnnotations []string
	// Reserved says which other keys of labels and annotations are not copied, besides marks and keys of one cluster
	// (see the package documentation). Default: none.
	Reserved func(key string) bool
	// Include are JSON pointers to fields that are copied even if the upstream API server has allocated them, such as
	// /spec/clusterIP of a Service. Default: none.
	Include []string
	// Keep says which keys are copied although they are of one cluster, or reserved. Marks never are. Default: none.
	Keep func(key string) bool
	// HashLabels replaces the keys of labels by hashes, as vcluster 0.4 did, so that no downstream controller acts on
	// a tenant's label. Default: false.
	HashLabels bool
}

type translator[T client.Object] struct {
	id        Identity
	keys      Keys
	managedBy string
	options   Options
	names     func(up types.NamespacedName) []types.NamespacedName
	form      form
	kind      atomic.Pointer[schema.GroupVersionKind] // nil until it is known
}

func (t *translator[T]) kindOf() schema.GroupVersionKind {
	if kind := t.kind.Load(); kind != nil {
		return *kind
	}
	return schema.GroupVersionKind{}
}

type form uint8

const (
	namespaced form = iota
	clusterScoped
	mirror
)

// NewNamespaced translates namespaced objects into Identity.TargetNamespace. Names contain name, namespace and
// tenant.
func NewNamespaced[T client.Object](id Identity, o Options) Translator[T] {
	t := newTranslator[T](id, o, namespaced)
	t.names = func(up types.NamespacedName) []types.NamespacedName {
		return inNamespace(id.TargetNamespace, names.OfNamespaced(up.Name, up.Namespace, id.Tenant))
	}
	return t
}

// NewCluster translates objects without a namespace.
func NewCluster[T client.Object](id Identity, o Options) Translator[T] {
	t := newTranslator[T](id, o, clusterScoped)
	if id.TargetNamespace != "" {
		t.managedBy = names.Concat(id.TargetNamespace, "x", id.Tenant)
	}
	t.names = func(up types.NamespacedName) []types.NamespacedName {
		return inNamespace("", names.OfClusterScoped(t.id.NamePrefix, up.Name, id.TargetNamespace, id.Tenant))
	}
	return t
}

// NewMirror keeps names, and namespaces unless Identity.TargetNamespace is set: there, of originals of one name only
// the first has a copy.
func NewMirror[T client.Object](id Identity, o Options) Translator[T] {
	t := newTranslator[T](id, o, mirror)
	t.names = func(up types.NamespacedName) []types.NamespacedName {
		if up.Namespace != "" && id.TargetNamespace != "" {
			up.Namespace = id.TargetNamespace
		}
		return []types.NamespacedName{up}
	}
	return t
}

func newTranslator[T client.Object](id Identity, o Options, f form) *translator[T] {
	id.setDefaults()
	t := &translator[T]{id: id, keys: id.Keys(), managedBy: id.Tenant, options: o, form: f}
	if !o.Kind.Empty() {
		t.kind.Store(&o.Kind)
	}
	return t
}

// Bind gives a translator its one identity and kind. A translator of another package is returned as it is. The error
// wraps ErrInvalidIdentity.
func Bind[T client.Object](t Translator[T], id Identity, kind schema.GroupVersionKind) (Translator[T], error) {
	known, ok := t.(*translator[T])
	if !ok {
		return t, nil
	}
	id, err := id.WithDefaults()
	switch {
	case err != nil:
		return nil, err
	case known.id != id:
		return nil, fmt.Errorf("%w: the translator is of tenant %q, and the pair of tenant %q, with other settings",
			ErrInvalidIdentity, known.id.Tenant, id.Tenant)
	case known.form == namespaced && id.TargetNamespace == "":
		return nil, fmt.Errorf("%w: a translator of namespaced objects needs a TargetNamespace", ErrInvalidIdentity)
	case !known.kind.CompareAndSwap(nil, &kind) && known.kindOf() != kind:
		return nil, fmt.Errorf("%w: the translator is that of %s; each kind needs its own", ErrInvalidIdentity, known.kindOf())
	}
	return known, nil
}

// ManagedBy returns the label Keys.ManagedBy of the copies, empty for a translator of another package.
func ManagedBy[T client.Object](t Translator[T]) string {
	if known, ok := t.(*translator[T]); ok {
		return known.managedBy
	}
	return ""
}

func (t *translator[T]) ToDownstream(up types.NamespacedName) []types.NamespacedName {
	if up.Name == "" {
		return nil
	}
	all := t.names(up)
	if limit := maxName(t.kindOf()); t.form != mirror && limit < names.MaxLength {
		unique := &all[len(all)-1] // the others are published
		unique.Name = names.ShortenUnique(unique.Name, limit)
		all = slices.DeleteFunc(all, func(name types.NamespacedName) bool { return len(name.Name) > limit })
	}
	return all
}

// maxName: the API server adds eleven characters to the name of a CronJob for its Jobs, and checks that.
func maxName(kind schema.GroupVersionKind) int {
	if kind.GroupKind() == (schema.GroupKind{Group: "batch", Kind: "CronJob"}) {
		return names.MaxLength - 11
	}
	return names.MaxLength
}

func inNamespace(namespace string, all []string) []types.NamespacedName {
	keys := make([]types.NamespacedName, 0, len(all))
	for _, name := range all {
		keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return keys
}

func (t *translator[T]) labelKey(key string) string {
	if !t.options.HashLabels {
		return key
	}
	hashed := ""
	if t.form == clusterScoped {
		hashed = t.id.TargetNamespace
	}
	return names.LabelKey(t.id.KeyPrefix, key, t.id.Tenant, hashed)
}
