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

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
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

// Rule copies objects of one kind: a SyncRule, whose spec has what the fields mean. Its name is unique, and part of the marks: with a new
// name it is another rule.
type Rule struct {
	Name          string // a DNS label of at most 32 characters
	UID           types.UID
	Generation    int64
	IsTerminating bool // the SyncRule is being deleted

	From                         From
	Kind                         Kind
	Clusters                     *metav1.LabelSelector
	Namespaces                   Namespaces // of the originals
	Objects                      *metav1.LabelSelector
	ObjectNames                  []string
	To                           To
	Mode                         Mode
	Status, BringCRD             bool
	OnTargetDeletion             hubv1.SyncOnTargetDeletion
	OnDeregister, DeletionPolicy hubv1.SyncEnd
	Adopt                        hubv1.SyncAdopt
	TakeOver                     []string // ids of hubs
	Exclude, Include             []string // JSON pointers
	KeepKeys, DropKeys           []string
	Patches                      []Patch

	recorded string        // hubv1.AnnotationHubNamespaces
	programs []cel.Program // of the patches, nil for a JSON Patch
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

// The words of the API.
type (
	// Kind has the resource of the API servers if that is empty.
	Kind = hubv1.SyncKind
	// From is the source of a rule.
	From = hubv1.SyncSource
	// Names is how copies are named.
	Names = hubv1.SyncNaming
	// Mode is what the rule does.
	Mode = hubv1.SyncMode
)

// Their values.
const (
	FromHub    = hubv1.SyncFromHub
	FromRemote = hubv1.SyncFromRemote
	Mirror     = hubv1.SyncMirror
	Translated = hubv1.SyncTranslated
	Enforce    = hubv1.SyncEnforce
	Create     = hubv1.SyncCreate
	Observe    = hubv1.SyncObserve
	Recreate   = hubv1.SyncRecreate
	Propagate  = hubv1.SyncPropagate
	Keep       = hubv1.SyncKeep
	Delete     = hubv1.SyncDelete
	Never      = hubv1.SyncAdoptNever
	IfEqual    = hubv1.SyncAdoptIfEqual
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
