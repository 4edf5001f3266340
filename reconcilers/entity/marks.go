// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// DefaultPrefix begins the keys of marks.
const DefaultPrefix = "entity.clusterfx.dev"

// Owner is the primary of a secondary.
type Owner struct {
	Kind, Key string
	// Life is the primary's when the secondary was written first.
	Life bucket.Birth
}

// Marks are the labels and annotations of secondaries, in place of ownerReferences. A label has a hash of the kind,
// annotations have the key and the life. Whoever may write in the namespace may write marks, so an annotation has a
// hash of all that and the object's name, which needs the id of the hub: changed or copied marks are foreign.
type Marks struct {
	// Prefix begins the keys. Default: DefaultPrefix.
	Prefix string
	// Hub keeps two hubs with one remote apart. Required.
	Hub string
	// Kind of the primaries is a DNS label. Required.
	Kind string
	// Bucket keeps two buckets with one Kind apart. Add sets it.
	Bucket string

	// set for secondaries in the hub and in buckets, where those of all clusters are
	cluster string
}

var (
	// ErrInvalidMarks means that Marks cannot be used.
	ErrInvalidMarks = errors.New("invalid marks")
	errTombstone    = errors.New("the object of an event is no object of Kubernetes")
)

func (m Marks) check() (Marks, error) {
	m.Prefix = cmp.Or(m.Prefix, DefaultPrefix)
	problems := validation.IsDNS1123Subdomain(m.Prefix)
	problems = append(problems, validation.IsDNS1123Label(strings.ToLower(m.Kind))...)
	if m.Hub == "" {
		problems = append(problems, "the hub is missing")
	}
	if len(problems) > 0 {
		return m, fmt.Errorf("%w: %s", ErrInvalidMarks, strings.Join(problems, "; "))
	}
	return m, nil
}

// claim fails if another controller of the app has the same marks. The registry of converters is a list that all
// modules of an app share, and that ends with the app.
func claim(o Options) error {
	label, value := o.Marks.KindLabel()
	name := schema.GroupKind{Group: label, Kind: value + "." + o.Cluster}
	if o.Manager.GetConverterRegistry().RegisterConverter(name, nil) == nil {
		return nil
	}
	return fmt.Errorf("%w: another controller of this app has the kind %s of bucket %s, and the two would delete each other's objects; "+
		"give %s another Marks.Kind or Marks.Prefix", ErrInvalidOptions, o.Marks.Kind, o.Marks.Bucket, o.Name)
}

// KindLabel returns the label of all secondaries of the kind.
func (m Marks) KindLabel() (key, value string) { return m.Prefix + "/kind", m.hash("kind", m.Kind) }

// proof is a hash that only the hub makes.
func (m Marks) proof(o Owner, name ...string) string {
	return m.hash(append([]string{"owner", o.Kind, o.Key, o.Life.String(), m.cluster}, name...)...)
}

// clusterLabel says in the hub which cluster's controller made a secondary.
func (m Marks) clusterLabel() string { return m.Prefix + "/cluster" }

// clusterValue is a hash, since names of clusters may be too long; empty in remotes.
func (m Marks) clusterValue() string {
	if m.cluster == "" {
		return ""
	}
	return m.hash("cluster", m.cluster)
}

// hash keeps the texts apart, and has 40 hex digits.
func (m Marks) hash(texts ...string) string {
	const usual = 256
	text := make([]byte, 0, usual)
	for _, one := range append([]string{m.Hub, m.Bucket}, texts...) {
		text = strconv.AppendInt(text, int64(len(one)), 10)
		text = append(append(text, ':'), one...)
	}
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:20])
}

// SetOwner marks an object that has its name.
func (m Marks) SetOwner(obj metav1.Object, o Owner) {
	key, value := m.KindLabel()
	marked := labels.Set{key: value}
	if m.cluster != "" {
		marked[m.clusterLabel()] = m.clusterValue()
	}
	obj.SetLabels(labels.Merge(obj.GetLabels(), marked))
	obj.SetAnnotations(labels.Merge(obj.GetAnnotations(), map[string]string{
		m.Prefix + "/owner-kind": o.Kind, m.Prefix + "/owner-key": o.Key, m.Prefix + "/owner-life": o.Life.String(),
		m.Prefix + "/owner-proof": m.proof(o, obj.GetNamespace(), obj.GetName()),
	}))
}

// OwnerOf returns the primary, and false if the hub has not made the marks for this object.
func (m Marks) OwnerOf(obj metav1.Object) (Owner, bool) {
	notes, labels := obj.GetAnnotations(), obj.GetLabels()
	life, ok := bucket.ParseLife(notes[m.Prefix+"/owner-life"])
	o := Owner{Kind: notes[m.Prefix+"/owner-kind"], Key: notes[m.Prefix+"/owner-key"], Life: life}
	kindLabel, kind := m.KindLabel()
	if !ok || labels[m.clusterLabel()] != m.clusterValue() || o.Kind != m.Kind || o.Key == "" || labels[kindLabel] != kind ||
		notes[m.Prefix+"/owner-proof"] != m.proof(o, obj.GetNamespace(), obj.GetName()) {
		return Owner{}, false
	}
	return o, true
}

// DecomposeKubeSecondaryResource returns the object of an event, a late deletion (cache.DeletedFinalStateUnknown)
// too, and its primary's key, empty if it is no secondary.
func (m Marks) DecomposeKubeSecondaryResource(obj any) (object metav1.Object, primaryKey string, err error) {
	if late, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = late.Obj
	}
	object, ok := obj.(metav1.Object)
	if !ok {
		return nil, "", fmt.Errorf("%w: %T", errTombstone, obj)
	}
	o, _ := m.OwnerOf(object)
	return object, o.Key, nil
}
