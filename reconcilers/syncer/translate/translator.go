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

// Translator translates the names and the metadata of objects of one kind between the clusters of a pair. Its methods send
// no requests and may be called from any goroutine.
type Translator[T client.Object] interface {
	// ToDownstream returns the names that the copy of an upstream object may have, in the order in which they are tried. The
	// second name is for an object whose first name belongs to the copy of another object. No name means that the object
	// cannot have a copy.
	ToDownstream(up types.NamespacedName) []types.NamespacedName
	// ToUpstream returns the name of the original of a downstream object, and false if the object is not a copy of the pair.
	ToUpstream(down T) (types.NamespacedName, bool)
	// Owner decides whose a downstream object is. uid is that of the upstream object, or empty if that object is absent.
	Owner(down T, uid types.UID) Ownership
	// Metadata returns a copy of an upstream object with the metadata of its downstream copy: its name, labels, annotations,
	// marks and owner. Everything else is as in the original, but for fields that the upstream API server has allocated. The marks follow
	// from the name, the UID, the generation, the labels and the annotations of the original: a pair also passes an object with nothing
	// else, to get them alone.
	Metadata(up T, to types.NamespacedName) T
	// MetadataUpdate returns the annotations and labels of a downstream object after an update: the upstream object decides
	// about the keys that come from it, and all other keys stay. changed is false if they are the present ones. It is for
	// writers that update or patch; a writer that applies uses Metadata.
	MetadataUpdate(up, down T) (changed bool, annotations, labels map[string]string)
}

// Options change a translator. The zero Options are the defaults.
type Options struct {
	// Kind is the kind of the objects. Default: that of the pair. Without one, until a pair has the translator, Owner and ToUpstream panic.
	Kind schema.GroupVersionKind
	// ExcludedAnnotations are annotations that are not copied. Default: no others than the reserved ones.
	ExcludedAnnotations []string
	// Reserved says which keys of labels and annotations are not copied. Marks are reserved in any case, and keys of one cluster; see
	// the package documentation. Default: no others.
	Reserved func(key string) bool
	// Include are JSON pointers to fields that are copied, with all that they contain, also if the upstream API server has allocated
	// them, such as /spec/clusterIP and /spec/ports of a Service. Default: none.
	Include []string
	// HashLabels replaces each key of a label by a hash of it, as vcluster 0.4 did, so that no controller of the downstream
	// cluster acts on a label of a tenant. Values stay. Default: false, labels are copied as they are.
	HashLabels bool
}

// translator implements all translators. They differ in the names.
type translator[T client.Object] struct {
	id        Identity
	keys      Keys
	managedBy string
	options   Options
	names     func(up types.NamespacedName) []types.NamespacedName
	form      form
	kind      atomic.Pointer[schema.GroupVersionKind] // nil until it is known
}

// kindOf returns the kind of the objects, or the empty kind while it is not known.
func (t *translator[T]) kindOf() schema.GroupVersionKind {
	if kind := t.kind.Load(); kind != nil {
		return *kind
	}
	return schema.GroupVersionKind{}
}

// form is the kind of names of a translator.
type form uint8

const (
	namespaced form = iota
	clusterScoped
	mirror
)

// NewNamespaced returns a translator of namespaced objects: all namespaces of the upstream cluster share
// Identity.TargetNamespace. The name of a copy contains the name, the namespace and the tenant; see the package
// documentation.
func NewNamespaced[T client.Object](id Identity, o Options) Translator[T] {
	t := newTranslator[T](id, o, namespaced)
	t.managedBy = t.id.Tenant
	t.names = func(up types.NamespacedName) []types.NamespacedName {
		return inNamespace(id.TargetNamespace, names.OfNamespaced(up.Name, up.Namespace, id.Tenant))
	}
	return t
}

// NewCluster returns a translator of objects without a namespace.
func NewCluster[T client.Object](id Identity, o Options) Translator[T] {
	t := newTranslator[T](id, o, clusterScoped)
	t.managedBy = t.id.Tenant
	if id.TargetNamespace != "" {
		t.managedBy = names.Concat(id.TargetNamespace, "x", id.Tenant)
	}
	t.names = func(up types.NamespacedName) []types.NamespacedName {
		return inNamespace("", names.OfClusterScoped(t.id.NamePrefix, up.Name, id.TargetNamespace, id.Tenant))
	}
	return t
}

// NewMirror returns a translator that keeps the names of objects, and their namespaces unless Identity.TargetNamespace is
// set. Two originals of one name in two namespaces have only one copy in a TargetNamespace: that of the object which was
// first.
func NewMirror[T client.Object](id Identity, o Options) Translator[T] {
	t := newTranslator[T](id, o, mirror)
	t.managedBy = t.id.Tenant
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
	t := &translator[T]{id: id, keys: id.Keys(), options: o, form: f}
	if !o.Kind.Empty() {
		t.kind.Store(&o.Kind)
	}
	return t
}

// Bind gives a translator to a pair: it has one identity and kind from then on. A translator of another package is returned as it is.
// The error wraps ErrInvalidIdentity.
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

// ManagedBy returns the value of the label Keys.ManagedBy of the copies of a translator, which is empty for a translator of
// another package.
func ManagedBy[T client.Object](t Translator[T]) string {
	if known, ok := t.(*translator[T]); ok {
		return known.managedBy
	}
	return ""
}

// ToDownstream returns the names that the copy of an upstream object may have.
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

// maxName returns how long the names of the copies of a kind may be. The API server of Kubernetes adds eleven characters to
// the name of a CronJob for its Jobs, and checks that.
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

// LabelKey returns the key that a label of an upstream object has downstream.
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
