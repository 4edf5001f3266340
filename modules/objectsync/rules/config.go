// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Config is the operator's.
type Config struct {
	// Allow says which rules the hub follows. Default: all but those with kinds and namespaces that have to be named.
	Allow Allow `json:"allow,omitempty"`
	// Limits bound what one remote may bring into the hub with one rule.
	Limits Limits `json:"limits,omitzero"`
	// AbandonAfter is how long a remote may be away, such as 72h, until the hub releases a deleted object whose only
	// copy is there. Default: never.
	AbandonAfter string `json:"abandonAfter,omitempty"`
}

// Limits bound a rule's copies from one remote. Beyond them none is made; existing ones stay.
type Limits struct {
	// Objects is a number of copies. Default: 1000.
	Objects int32 `json:"objects,omitempty"`
	// Bytes is the size of all copies as JSON. Default: 10Mi.
	Bytes string `json:"bytes,omitempty"`
}

// Rule copies objects of one kind. Its name is unique, and part of the marks: with a new name it is another rule.
type Rule struct {
	// UID and Generation are those of the SyncRule.
	UID        types.UID
	Generation int64
	// Clusters selects Clusters by labels. Default: all.
	Clusters *metav1.LabelSelector
	// ObjectNames are names of originals. Default: all.
	ObjectNames []string
	// KeepKeys and DropKeys are keys of labels and annotations that are copied although they are about one cluster, and that are not.
	KeepKeys, DropKeys []string
	// DeletionPolicy is for copies when the rule is deleted. Default: Keep.
	DeletionPolicy OnDeregister
	// TakeOver are ids of hubs whose copies become those of the rule.
	TakeOver []string
	// IsTerminating says that the SyncRule is being deleted.
	IsTerminating bool

	recorded string        // hubv1.AnnotationHubNamespaces
	programs []cel.Program // of the patches, nil for a JSON Patch
	// Name is a DNS label of at most 32 characters. Required.
	Name string
	// From is the source. Required.
	From From
	// Kind of the objects. Required.
	Kind Kind
	// Namespaces of the originals. Required for a kind that has namespaces.
	Namespaces Namespaces
	// Objects selects by labels. Default: all. A rule for Secrets of the hub requires a label.
	Objects *metav1.LabelSelector
	// To names the copies.
	To To
	// Status brings the copy's status back, in a one-to-one rule. Default: false.
	Status bool
	// OnTargetDeletion is for copies that somebody deletes. Default: Recreate.
	OnTargetDeletion OnTargetDeletion
	// OnDeregister is for copies when the Cluster is deleted. Default: Keep.
	OnDeregister OnDeregister
	// Adopt is for objects that exist in the target. Default: Never.
	Adopt Adopt
	// Mode Observe records as events what would be written. Default: Enforce.
	Mode Mode
	// Exclude are JSON pointers to fields that belong to the target. Default: none.
	Exclude []string
	// Include are JSON pointers to fields that are copied although an API server has allocated them, such as
	// /spec/clusterIP of a Service. Default: none.
	Include []string
	// Patches change the copies, in order. Default: none.
	Patches []Patch
	// BringCRD brings the kind's definition from the hub to remotes that lack it. Default: false.
	BringCRD bool
}

// From is the source of a rule.
type From string

// Sources.
const (
	FromHub    From = "Hub"
	FromRemote From = "Remote"
)

// Kind has the regular plural as its resource.
type Kind struct {
	APIVersion string
	Kind       string
	// Resource is that of the API servers if it is empty.
	Resource string
}

// Namespaces has exactly one field set.
type Namespaces struct {
	// Names are names of namespaces.
	Names []string
	// Selector selects by labels; an empty one selects all.
	Selector *metav1.LabelSelector
	// Template is one namespace for each cluster, such as tenant-{{cluster}}.
	Template string
}

// To names the copies.
type To struct {
	// Names are the names of the copies. Required.
	Names Names
	// Namespace of the copies must exist. It may contain {{cluster}}. Required for Translated if the kind has
	// namespaces. Default: with Mirror the original's.
	Namespace string
	// CreateNamespace makes the namespaces of the copies in remotes that lack them.
	CreateNamespace bool
}

// Names is how copies are named.
type Names string

const (
	// Mirror keeps the originals' names.
	Mirror Names = "Mirror"
	// Translated names never collide: they have the name, namespace and source of the original.
	Translated Names = "Translated"
)

// OnTargetDeletion is for copies that somebody deletes.
type OnTargetDeletion string

const (
	// Recreate makes the copy again.
	Recreate OnTargetDeletion = "Recreate"
	// Propagate deletes the original.
	Propagate OnTargetDeletion = "Propagate"
)

// OnDeregister is for copies when the Cluster is deleted.
type OnDeregister string

const (
	// Keep keeps them.
	Keep OnDeregister = "Keep"
	// Delete deletes them, if the target responds then.
	Delete OnDeregister = "Delete"
)

// Adopt says which objects become copies.
type Adopt string

const (
	// Never reports a conflict of names.
	Never Adopt = "Never"
	// IfEqual adopts what has the copy's content, metadata and status aside.
	IfEqual Adopt = "IfEqual"
)

// Mode is what the rule does.
type Mode string

const (
	// Enforce copies.
	Enforce Mode = "Enforce"
	// Create makes a copy whenever it is absent, and never changes it.
	Create Mode = "Create"
	// Observe only records what would be written.
	Observe Mode = "Observe"
)

// Patch changes copies. Either JSONPatch, or Path and CEL are set.
type Patch struct {
	// When limits it to Clusters with these labels. Default: all.
	When When `json:"when,omitzero"`
	// JSONPatch is RFC 6902.
	JSONPatch []Operation `json:"jsonPatch,omitempty"`
	// Path is a JSON pointer to the field that gets the value of CEL, with the variables cluster (name and labels)
	// and object, the copy before this patch. Missing parents are made.
	Path string `json:"path,omitempty"`
	CEL  string `json:"cel,omitempty"`
}

// When selects Clusters.
type When struct {
	// MatchLabels are labels that the Cluster has.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// Operation is an operation of a JSON Patch.
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

const (
	defaultObjects = 1000
	defaultBytes   = "10Mi"
)

// Defaults are the config's; those of a rule are in Complete.
func Defaults() Config {
	return Config{Limits: Limits{Objects: defaultObjects, Bytes: defaultBytes}}
}

func (r Rule) complete() Rule {
	r.OnTargetDeletion = cmp.Or(r.OnTargetDeletion, Recreate)
	r.OnDeregister = cmp.Or(r.OnDeregister, Keep)
	r.Adopt = cmp.Or(r.Adopt, Never)
	r.Mode = cmp.Or(r.Mode, Enforce)
	r.DeletionPolicy = cmp.Or(r.DeletionPolicy, Keep)
	return r
}

// Abandon returns AbandonAfter, and false for never.
func (c Config) Abandon() (time.Duration, bool) {
	after, err := time.ParseDuration(c.AbandonAfter)
	return after, err == nil && after > 0
}

// MaxBytes is Limits.Bytes as a number.
func (c Config) MaxBytes() int64 {
	bytes, err := resource.ParseQuantity(c.Limits.Bytes)
	if err != nil {
		return 0 // Validate refuses it.
	}
	return bytes.Value()
}

// GVK is the kind of the objects.
func (r Rule) GVK() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.Kind.APIVersion, r.Kind.Kind)
}

// IsNamespaced reports whether the rule, and so the kind, has namespaces.
func (r Rule) IsNamespaced() bool { return !r.Namespaces.isZero() }

func (n Namespaces) isZero() bool { return len(n.Names) == 0 && n.Selector == nil && n.Template == "" }

// HasFinalizers reports whether originals have a finalizer: those of the hub with one copy. Deletions in a remote are confirmed there.
func (r Rule) HasFinalizers() bool { return r.From == FromHub && r.IsOneToOne() && r.Mode != Observe }

// IsOneToOne reports whether each original has exactly one copy.
func (r Rule) IsOneToOne() bool { return r.From == FromRemote || r.Namespaces.Template != "" }
