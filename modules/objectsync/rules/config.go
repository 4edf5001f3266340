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
	// Rules default to none.
	Rules []Rule `json:"rules,omitempty"`
	// Allow says which rules the hub follows. Default: all but those with kinds and namespaces that have to be named.
	Allow Allow `json:"allow,omitempty"`
	// Limits bound what one remote may bring into the hub with one rule.
	Limits Limits `json:"limits,omitzero"`
	// AbandonAfter is how long a remote may be away, such as 72h, until the hub releases a deleted object whose only
	// copy is there. Default: never; hub sync release does it.
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
	UID        types.UID `json:"-"`
	Generation int64     `json:"-"`
	// Clusters selects Clusters by labels. Default: all.
	Clusters *metav1.LabelSelector `json:"-"`
	// ObjectNames are names of originals. Default: all.
	ObjectNames []string `json:"-"`
	// KeepKeys and DropKeys are keys of labels and annotations that are copied although they are about one cluster, and that are not.
	KeepKeys, DropKeys []string `json:"-"`
	// DeletionPolicy is for copies when the rule is deleted. Default: Keep.
	DeletionPolicy OnDeregister `json:"-"`
	// TakeOver are ids of hubs whose copies become those of the rule.
	TakeOver []string `json:"-"`
	// IsTerminating says that the SyncRule is being deleted.
	IsTerminating bool `json:"-"`

	programs []cel.Program // of the patches, nil for a JSON Patch
	// Name is a DNS label of at most 32 characters. Required.
	Name string `json:"name"`
	// From is the source. Required.
	From From `json:"from"`
	// Kind of the objects. Required.
	Kind Kind `json:"kind"`
	// Namespaces of the originals. Required for a kind that has namespaces.
	Namespaces Namespaces `json:"namespaces,omitzero"`
	// Objects selects by labels. Default: all. A rule for Secrets of the hub requires a label.
	Objects *metav1.LabelSelector `json:"objects,omitempty"`
	// To names the copies.
	To To `json:"to"`
	// Status brings the copy's status back, in a one-to-one rule. Default: false.
	Status bool `json:"status,omitempty"`
	// OnTargetDeletion is for copies that somebody deletes. Default: Recreate.
	OnTargetDeletion OnTargetDeletion `json:"onTargetDeletion,omitempty"`
	// OnDeregister is for copies when the Cluster is deleted. Default: Keep.
	OnDeregister OnDeregister `json:"onDeregister,omitempty"`
	// Adopt is for objects that exist in the target. Default: Never.
	Adopt Adopt `json:"adopt,omitempty"`
	// Mode Observe records as events what would be written. Default: Enforce.
	Mode Mode `json:"mode,omitempty"`
	// Exclude are JSON pointers to fields that belong to the target. Default: none.
	Exclude []string `json:"exclude,omitempty"`
	// Include are JSON pointers to fields that are copied although an API server has allocated them, such as
	// /spec/clusterIP of a Service. Default: none.
	Include []string `json:"include,omitempty"`
	// Patches change the copies, in order. Default: none.
	Patches []Patch `json:"patches,omitempty"`
	// BringCRD brings the kind's definition from the hub to remotes that lack it. Default: false.
	BringCRD bool `json:"bringCRD,omitempty"`
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
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Resource is that of the API servers if it is empty.
	Resource string `json:"-"`
}

// Namespaces has exactly one field set.
type Namespaces struct {
	// Names are names of namespaces.
	Names []string `json:"names,omitempty"`
	// Selector selects by labels; an empty one selects all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Template is one namespace for each cluster, such as tenant-{{cluster}}.
	Template string `json:"template,omitempty"`
}

// To names the copies.
type To struct {
	// Names are the names of the copies. Required.
	Names Names `json:"names"`
	// Namespace of the copies must exist. It may contain {{cluster}}. Required for Translated if the kind has
	// namespaces. Default: with Mirror the original's.
	Namespace string `json:"namespace,omitempty"`
	// CreateNamespace makes the namespaces of the copies in remotes that lack them.
	CreateNamespace bool `json:"-"`
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
	// Keep keeps them. hub sync prune deletes them later.
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

// Complete returns the rules with their defaults.
func (c Config) Complete() []Rule {
	all := make([]Rule, 0, len(c.Rules))
	for _, r := range c.Rules {
		all = append(all, r.complete())
	}
	return all
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
