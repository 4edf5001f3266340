// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// Limits of a SyncRule.
const (
	// MaxSyncRuleNameLength is the limit of the name of a SyncRule.
	MaxSyncRuleNameLength = 32

	// MaxSyncProblems is the limit of the entries of status.problems.
	MaxSyncProblems = 20

	// MaxSyncReplicas is the limit of the entries of status.replicas.
	MaxSyncReplicas = 32

	// MaxSyncObjectLength is the limit of the object of a problem.
	MaxSyncObjectLength = 317

	// MaxRemains is the limit of the entries of status.remains of a Cluster.
	MaxRemains = 64
)

// AnnotationAllowHeld on a SyncRule is the generation whose held deletes and changes are allowed, in all remotes, as the condition
// Held asks for it. An operator writes it.
const AnnotationAllowHeld = "clusterfx.dev/allow-held"

// AnnotationHubNamespaces on a SyncRule from remotes are the namespaces of the hub in which it may have copies, separated by commas, also
// from before an edit: where copies that have not moved yet are found again. The hub writes it before it makes a copy there.
const AnnotationHubNamespaces = "clusterfx.dev/hub-namespaces"

// AnnotationKeptBy replaces the label of a copy that a deleted rule with deletionPolicy Keep leaves behind. A rule of the same hub that
// gives the same original the same address takes the copy back; the annotation has no meaning on a copy with the label. Only the hub
// writes it.
const AnnotationKeptBy = "clusterfx.dev/kept-by"

// FinalizerSyncRule keeps a SyncRule until what it has made in the remotes is dealt with, or written down in the status of their
// Clusters.
const FinalizerSyncRule = "clusterfx.dev/sync"

// SyncRuleSpec says which objects are copied, from where to where and how. One rule is about one kind.
//
// +kubebuilder:validation:XValidation:rule="self.from == oldSelf.from",message="from is immutable; delete the rule and create another one"
// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="kind is immutable; delete the rule and create another one"
// +kubebuilder:validation:XValidation:rule="self.from == 'Hub' || !has(self.bringCRD) || self.bringCRD == 'Never'",message="bringCRD: a definition is brought only from the hub to remotes"
// +kubebuilder:validation:XValidation:rule="self.from == 'Hub' || !has(self.adopt) || self.adopt == 'Never'",message="adopt: with from Remote, a writer of the remote could take over an object of the hub; use Never"
// +kubebuilder:validation:XValidation:rule="self.from == 'Hub' || !has(self.to.createNamespace) || self.to.createNamespace == 'Never'",message="to.createNamespace: namespaces are made only in remotes"
type SyncRuleSpec struct {
	// from is Hub if the hub has the originals and each remote a copy, and Remote if each remote has originals and the hub their
	// copies. It is immutable.
	// +required
	From SyncSource `json:"from,omitempty"`

	// kind is the kind of the objects. It is immutable.
	// +required
	Kind SyncKind `json:"kind,omitzero"`

	// clusters selects, by labels, the Clusters that the rule is for, among those that run the module sync. It is for all of them
	// unless set.
	// +optional
	Clusters *LabelSelector `json:"clusters,omitempty"`

	// namespaces are those of the originals. They are required for a kind that has namespaces, and left out for any other kind.
	// +optional
	Namespaces SyncNamespaces `json:"namespaces,omitzero"`

	// objects selects the originals in these namespaces. All are selected unless set. A rule for Secrets of the hub names them, or
	// asks for a label that they must have.
	// +optional
	Objects SyncObjects `json:"objects,omitzero"`

	// to names the copies.
	// +required
	To SyncTarget `json:"to,omitzero"`

	// mode is Enforce if copies are kept equal to their originals, Create if a copy is made whenever it is absent and never
	// changed, and Observe if the rule only records as events what it would write. It is Enforce unless set.
	// +optional
	// +default="Enforce"
	Mode SyncMode `json:"mode,omitempty"`

	// adopt is Never if an object that exists in place of a copy is a conflict, and IfEqual if it becomes the copy where it has the
	// same content. It is Never unless set.
	// +optional
	// +default="Never"
	Adopt SyncAdopt `json:"adopt,omitempty"`

	// status is Return if the status of a copy is brought to its original, which requires that an original has one copy: the rule is
	// from remotes, or has namespaces.template. It is Ignore unless set.
	// +optional
	// +default="Ignore"
	Status SyncReturn `json:"status,omitempty"`

	// bringCRD is IfAbsent if the hub's definition of the kind is created in remotes that lack it. It is Never unless set.
	// +optional
	// +default="Never"
	BringCRD SyncCreation `json:"bringCRD,omitempty"`

	// onTargetDeletion is Recreate if a copy that another client deletes is made again, and Propagate if its original is deleted, which
	// requires that an original has one copy. It is Recreate unless set.
	// +optional
	// +default="Recreate"
	OnTargetDeletion SyncOnTargetDeletion `json:"onTargetDeletion,omitempty"`

	// onDeregister says what happens to the copies of a Cluster that is deleted. It is Keep unless set.
	// +optional
	// +default="Keep"
	OnDeregister SyncEnd `json:"onDeregister,omitempty"`

	// deletionPolicy says what happens to the copies when the rule is deleted. It is Keep unless set.
	// +optional
	// +default="Keep"
	DeletionPolicy SyncEnd `json:"deletionPolicy,omitempty"`

	// exclude are JSON pointers to fields that belong to the target, such as /spec/replicas.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=256
	Exclude []string `json:"exclude,omitempty"`

	// include are JSON pointers to fields that are copied although an API server has allocated them, such as /spec/clusterIP of a
	// Service.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=256
	Include []string `json:"include,omitempty"`

	// keepKeys are keys of labels and annotations that are copied although they are about one cluster, such as those of Argo CD and
	// Helm. With from Remote, keys of Kubernetes and clusterfx are never copied.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	KeepKeys []string `json:"keepKeys,omitempty"`

	// dropKeys are keys of labels and annotations that are not copied.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	DropKeys []string `json:"dropKeys,omitempty"`

	// patches change the copies, one after the other.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Patches []SyncPatch `json:"patches,omitempty"`

	// takeOver are ids of hubs whose copies, made by a rule of this name, kind and direction, become copies of this rule in place:
	// such as the id of a hub that was restored in another cluster.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	TakeOver []string `json:"takeOver,omitempty"`
}

// SyncKind is the kind of the objects of a rule.
type SyncKind struct {
	// apiVersion is the group and version of the kind, such as v1 or apps/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion,omitempty"`

	// kind is the name of the kind, such as Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// resource is the name of the kind in URLs, such as secrets. It is that of the API servers unless set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource,omitempty"`
}

// LabelSelector selects by labels, as that of Kubernetes does. An empty one selects all.
type LabelSelector struct {
	// matchLabels are labels that all have to be there.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are requirements that all have to be met.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"`
}

// LabelRequirement is a requirement about one label.
//
// +kubebuilder:validation:XValidation:rule="has(self.values) == (self.operator in ['In', 'NotIn'])",message="values are for the operators In and NotIn, which require them"
type LabelRequirement struct {
	// key is the key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`

	// operator relates the label to the values.
	// +required
	Operator LabelOperator `json:"operator,omitempty"`

	// values are for In and NotIn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Values []LabelValue `json:"values,omitempty"`
}

// LabelOperator relates a label to values.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
type LabelOperator string

// Operators.
const (
	LabelIn           LabelOperator = "In"
	LabelNotIn        LabelOperator = "NotIn"
	LabelExists       LabelOperator = "Exists"
	LabelDoesNotExist LabelOperator = "DoesNotExist"
)

// SyncNamespaces has exactly one field set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.names), has(self.selector), has(self.template)].exists_one(set, set)",message="namespaces: use one of names, selector and template"
type SyncNamespaces struct {
	// names are names of namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`

	// selector selects namespaces by labels. An empty one selects all.
	// +optional
	Selector *LabelSelector `json:"selector,omitempty"`

	// template is one namespace for each Cluster, such as tenant-{{cluster}}.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Template string `json:"template,omitempty"`
}

// SyncObjects selects originals: those that have one of the names and the labels.
type SyncObjects struct {
	// names are names of originals. All names are selected unless set.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`

	// selector selects by labels.
	// +optional
	Selector *LabelSelector `json:"selector,omitempty"`
}

// SyncTarget names the copies.
type SyncTarget struct {
	// naming is Mirror if a copy has the name of its original, and Translated if it has a name that never collides: it has the name,
	// the namespace and the source of the original.
	// +required
	Naming SyncNaming `json:"naming,omitempty"`

	// namespace is the namespace of the copies. It may contain {{cluster}}. It is required with Translated for a kind that has
	// namespaces. With Mirror it is the namespace of the original unless set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Namespace string `json:"namespace,omitempty"`

	// createNamespace is IfAbsent if the namespaces of the copies are made in remotes that lack them; they are never changed or
	// deleted. It is Never unless set.
	// +optional
	// +default="Never"
	CreateNamespace SyncCreation `json:"createNamespace,omitempty"`
}

// SyncPatch changes copies.
//
// +kubebuilder:validation:XValidation:rule="has(self.jsonPatch) ? !has(self.path) && !has(self.cel) : has(self.path) && has(self.cel)",message="use either jsonPatch, or path and cel"
type SyncPatch struct {
	// when limits the patch to Clusters with these labels. It is for all of them unless set.
	// +optional
	When SyncWhen `json:"when,omitzero"`

	// jsonPatch is a JSON Patch, as in RFC 6902.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	JSONPatch []SyncPatchOperation `json:"jsonPatch,omitempty"`

	// path is a JSON pointer to the field that gets the value of cel. Missing parents are made.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path,omitempty"`

	// cel is an expression with the variables cluster, which has name and labels, and object, the copy before this patch.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	CEL string `json:"cel,omitempty"`
}

// SyncWhen selects Clusters.
type SyncWhen struct {
	// matchLabels are labels that the Cluster has.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
}

// SyncPatchOperation is one operation of a JSON Patch.
type SyncPatchOperation struct {
	// op is the name of the operation.
	// +required
	Op SyncPatchOp `json:"op,omitempty"`

	// path is a JSON pointer to the field that the operation is about.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path,omitempty"`

	// from is a JSON pointer to the field that move and copy read.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=256
	From string `json:"from,omitempty"`

	// value is any JSON value, for add, replace and test.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value *runtime.RawExtension `json:"value,omitempty"`
}

// SyncPatchOp is the name of an operation of a JSON Patch.
//
// +kubebuilder:validation:Enum=add;remove;replace;move;copy;test
type SyncPatchOp string
