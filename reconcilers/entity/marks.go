// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Life is that of the primary when the secondary was written first.
	Life bucket.Life
}

// Marks are the labels and annotations of secondaries. An entity is no object of Kubernetes, so they replace ownerReferences.
//
// A label has a hash of the kind, by which secondaries are selected, and annotations have the key, which may have a slash and any length,
// and the life. Whoever may write in a namespace of the cluster may write marks there. So an annotation has a hash of all that and of the
// name of the object, which needs the id of the hub: marks that are changed, or copied to another object, are foreign.
type Marks struct {
	// Prefix begins the keys. Default: DefaultPrefix.
	Prefix string
	// Hub identifies the hub, so that two hubs with one remote leave the secondaries of the other one alone. Required.
	Hub string
	// Kind is the kind of the primaries: a DNS label. Required.
	Kind string
	// Bucket is the bucket of the primaries, so that two buckets with one Kind leave each other's secondaries alone. Add sets it.
	Bucket string

	// cluster is set in the marks of secondaries in the hub, where those of all clusters are together.
	cluster string
}

var (
	// ErrInvalidMarks is the error of Marks that cannot be used.
	ErrInvalidMarks = errors.New("invalid marks")
	errTombstone    = errors.New("the object of an event is no object of Kubernetes")
)

// check returns the marks with their defaults.
func (m Marks) check() (Marks, error) {
	if m.Prefix == "" {
		m.Prefix = DefaultPrefix
	}
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

// claim returns an error if another controller of the app has the same marks. The registry of converters is the list of names that all
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

// KindLabel returns the label that all secondaries of the kind have, with its value.
func (m Marks) KindLabel() (key, value string) { return m.Prefix + "/kind", m.hash("kind", m.Kind) }

// proof returns a hash of the primary and the name of a secondary, which only the hub makes.
func (m Marks) proof(o Owner, name ...string) string {
	return m.hash(append([]string{"owner", o.Kind, o.Key, o.Life.String(), m.cluster}, name...)...)
}

// clusterLabel is the label of secondaries in the hub whose value tells which cluster's controller has made them.
func (m Marks) clusterLabel() string { return m.Prefix + "/cluster" }

// clusterValue is the value of the label: a hash, since the name of a cluster may be too long for a label. It is empty for secondaries
// in remotes.
func (m Marks) clusterValue() string {
	if m.cluster == "" {
		return ""
	}
	return m.hash("cluster", m.cluster)
}

// hash returns 40 hex digits of a hash of the hub, the bucket and some texts, whose ends it knows.
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

// SetOwner marks an object, which has its name, as a secondary.
func (m Marks) SetOwner(obj metav1.Object, o Owner) {
	labels, notes := obj.GetLabels(), obj.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if notes == nil {
		notes = map[string]string{}
	}
	key, value := m.KindLabel()
	labels[key] = value
	if m.cluster != "" {
		labels[m.clusterLabel()] = m.clusterValue()
	}
	notes[m.Prefix+"/owner-kind"], notes[m.Prefix+"/owner-key"], notes[m.Prefix+"/owner-life"] = o.Kind, o.Key, o.Life.String()
	notes[m.Prefix+"/owner-proof"] = m.proof(o, obj.GetNamespace(), obj.GetName())
	obj.SetLabels(labels)
	obj.SetAnnotations(notes)
}

// OwnerOf returns the primary of a secondary, and false for an object that is none, or whose marks the hub has not made for it.
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

// DecomposeKubeSecondaryResource returns the object of an event, also of one that reports a deletion late
// (cache.DeletedFinalStateUnknown), and the key of its primary, which is empty if the object is no secondary.
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
