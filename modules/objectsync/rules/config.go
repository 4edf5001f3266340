// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Config is the configuration of the module by an operator.
type Config struct {
	// Rules say which objects are copied. Default: none.
	Rules []Rule `json:"rules,omitempty"`
	// Limits bound what one remote may bring into the hub with one rule.
	Limits Limits `json:"limits,omitzero"`
	// AbandonAfter is how long a remote may be away, as a duration such as 72h, until the hub releases an object that is being
	// deleted and has its only copy in that remote. Default: never; hub sync release does it.
	AbandonAfter string `json:"abandonAfter,omitempty"`
}

// Limits bound the copies of a rule from one remote. Beyond a limit no more copies are made; existing ones stay.
type Limits struct {
	// Objects is the number of copies. Default: 1000.
	Objects int32 `json:"objects,omitempty"`
	// Bytes is the size of all copies together as JSON, as a quantity such as 10Mi. Default: 10Mi.
	Bytes string `json:"bytes,omitempty"`
}

// Rule copies objects of one kind. Names of rules are unique, and are part of the marks of the copies: a rule with a new name
// is another rule.
type Rule struct {
	// Name is a DNS label of at most 32 characters. Required.
	Name string `json:"name"`
	// From is the source. Required.
	From From `json:"from"`
	// Kind is the kind of the objects. Required.
	Kind Kind `json:"kind"`
	// Namespaces are the namespaces of the originals. Required for a kind with namespaces; the others have none.
	Namespaces Namespaces `json:"namespaces,omitzero"`
	// Objects selects the originals by their labels. Default: all of them. A rule for Secrets of the hub requires a label.
	Objects *metav1.LabelSelector `json:"objects,omitempty"`
	// To names the copies.
	To To `json:"to"`
	// Status brings the status of the copy back to the original, in a rule that is one-to-one. Default: false.
	Status bool `json:"status,omitempty"`
	// OnTargetDeletion says what happens when somebody deletes a copy. Default: Recreate.
	OnTargetDeletion OnTargetDeletion `json:"onTargetDeletion,omitempty"`
	// OnDeregister says what happens to the copies when the Cluster is deleted. Default: Keep.
	OnDeregister OnDeregister `json:"onDeregister,omitempty"`
	// Adopt says whether an object becomes a copy that exists already in the target. Default: Never.
	Adopt Adopt `json:"adopt,omitempty"`
	// Mode is Observe to record as events what would be written. Default: Enforce.
	Mode Mode `json:"mode,omitempty"`
	// Exclude are JSON pointers to fields that belong to the target and are not written. Default: none.
	Exclude []string `json:"exclude,omitempty"`
	// Include are JSON pointers to fields that are copied although the API server of the original has allocated them, such as
	// /spec/clusterIP of a Service. Default: none.
	Include []string `json:"include,omitempty"`
	// Patches change the copies, in this order. Default: none.
	Patches []Patch `json:"patches,omitempty"`
	// BringCRD brings the CustomResourceDefinition of the kind from the hub to remotes that lack it. Default: false.
	BringCRD bool `json:"bringCRD,omitempty"`
}

// From is the source of a rule.
type From string

// The sources.
const (
	FromHub    From = "Hub"
	FromRemote From = "Remote"
)

// Kind is a kind of objects. Its resource has the regular plural of the kind.
type Kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Namespaces are the namespaces of the originals: exactly one of the fields is set.
type Namespaces struct {
	// Names are names of namespaces.
	Names []string `json:"names,omitempty"`
	// Selector selects namespaces by their labels; an empty selector selects all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Template is the name of one namespace for each cluster, such as tenant-{{cluster}}.
	Template string `json:"template,omitempty"`
}

// To names the copies.
type To struct {
	// Names are the names of the copies. Required.
	Names Names `json:"names"`
	// Namespace is the namespace of the copies, which has to exist. It may contain {{cluster}}. Required for Translated if the
	// kind has namespaces. Default: with Mirror that of the original.
	Namespace string `json:"namespace,omitempty"`
}

// Names is how copies are named.
type Names string

const (
	// Mirror keeps the names of the originals.
	Mirror Names = "Mirror"
	// Translated makes names of the name, the namespace and the source of the original, so that they never collide.
	Translated Names = "Translated"
)

// OnTargetDeletion says what happens when somebody deletes a copy.
type OnTargetDeletion string

const (
	// Recreate makes the copy again.
	Recreate OnTargetDeletion = "Recreate"
	// Propagate deletes the original.
	Propagate OnTargetDeletion = "Propagate"
)

// OnDeregister says what happens to the copies when the Cluster is deleted.
type OnDeregister string

const (
	// Keep keeps them. hub sync prune deletes them later.
	Keep OnDeregister = "Keep"
	// Delete deletes them, if the target responds at that time.
	Delete OnDeregister = "Delete"
)

// Adopt says which objects become copies.
type Adopt string

const (
	// Never reports a conflict of names.
	Never Adopt = "Never"
	// IfEqual adopts an object that has the content of the copy. Metadata and status are not compared.
	IfEqual Adopt = "IfEqual"
)

// Mode is what the rule does.
type Mode string

const (
	// Enforce copies.
	Enforce Mode = "Enforce"
	// Observe only records what would be written.
	Observe Mode = "Observe"
)

// Patch changes copies. Either JSONPatch, or Path and CEL are set.
type Patch struct {
	// When limits the patch to Clusters with these labels. Default: all.
	When When `json:"when,omitzero"`
	// JSONPatch are the operations of a JSON Patch (RFC 6902).
	JSONPatch []Operation `json:"jsonPatch,omitempty"`
	// Path is a JSON pointer to the field that gets the value of CEL, an expression with the variables cluster (with name and
	// labels) and object, which is the copy before this patch. Missing parents of the field are made.
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

// Defaults returns the values of fields that the operator does not set. Those of a rule are in Complete.
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
	return r
}

// Abandon returns AbandonAfter, and false if remotes are never abandoned.
func (c Config) Abandon() (time.Duration, bool) {
	after, err := time.ParseDuration(c.AbandonAfter)
	return after, err == nil && after > 0
}

// MaxBytes returns Limits.Bytes as a number.
func (c Config) MaxBytes() int64 {
	bytes, err := resource.ParseQuantity(c.Limits.Bytes)
	if err != nil {
		return 0 // Validate refuses it.
	}
	return bytes.Value()
}

// GVK returns the kind of the objects.
func (r Rule) GVK() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.Kind.APIVersion, r.Kind.Kind)
}

// IsNamespaced reports whether the kind has namespaces, which the rule tells by having some.
func (r Rule) IsNamespaced() bool { return !r.Namespaces.isZero() }

func (n Namespaces) isZero() bool { return len(n.Names) == 0 && n.Selector == nil && n.Template == "" }

// IsOneToOne reports whether each original has exactly one copy.
func (r Rule) IsOneToOne() bool { return r.From == FromRemote || r.Namespaces.Template != "" }
