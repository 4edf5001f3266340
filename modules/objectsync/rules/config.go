// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"k8s.io/apimachinery/pkg/api/resource"
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
}

// Limits bound a rule's copies from one remote. Beyond them none is made; existing ones stay.
type Limits struct {
	// Objects is a number of copies. Default: 1000.
	Objects int32 `json:"objects,omitempty"`
	// Bytes is the size of all copies as JSON. Default: 10Mi.
	Bytes string `json:"bytes,omitempty"`
}

// Rule copies objects of one kind: a SyncRule. Its name is unique, and part of the marks: with a new name it is another rule.
type Rule struct {
	hubv1.SyncRuleSpec

	Name          string // a DNS label of at most 32 characters
	UID           types.UID
	Generation    int64
	IsTerminating bool // the SyncRule is being deleted

	recorded string // hubv1.AnnotationHubNamespaces
	steps    []step // of the patches
}

// Defaults are those of the configuration.
func Defaults() Config { return Config{Limits: Limits{Objects: 1000, Bytes: "10Mi"}} }

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
func (r Rule) IsNamespaced() bool {
	n := r.Namespaces
	return len(n.Names) > 0 || n.Selector != nil || n.Template != ""
}

// BringsCRD reports whether remotes that lack the kind get its definition.
func (r Rule) BringsCRD() bool {
	return r.From == hubv1.SyncFromHub && r.BringCRD == hubv1.SyncCreateIfAbsent
}

// CreatesNamespace reports whether the namespaces of the copies are made in remotes.
func (r Rule) CreatesNamespace() bool {
	return r.From == hubv1.SyncFromHub && r.To.CreateNamespace == hubv1.SyncCreateIfAbsent
}

// ReturnsStatus reports whether the status of a copy is written to its original.
func (r Rule) ReturnsStatus() bool { return r.Status == hubv1.SyncReturnStatus }

// HasFinalizers reports whether originals have a finalizer: those of the hub with one copy. Deletions in a remote are confirmed there.
func (r Rule) HasFinalizers() bool {
	return r.From == hubv1.SyncFromHub && r.IsOneToOne() && r.Mode != hubv1.SyncObserve
}

// IsOneToOne reports whether each original has exactly one copy.
func (r Rule) IsOneToOne() bool { return r.From == hubv1.SyncFromRemote || r.Namespaces.Template != "" }
