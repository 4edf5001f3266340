// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of a SyncRule, besides Ready, Reconciling and Stalled.
const (
	// ConditionComplete is True if all selected Clusters have followed this generation, also those that cannot be reached. Otherwise
	// the message has their number and names.
	ConditionComplete = "Complete"

	// ConditionValid is False if the rule cannot work anywhere, and the message says why. Then it does nothing: its copies stay.
	ConditionValid = "Valid"

	// ConditionHeld exists only while it is True: what an edit gives up is more than a rule may delete in a remote. The message has
	// the annotation that allows it for all remotes.
	ConditionHeld = "Held"
)

// Reasons of the conditions of a SyncRule, besides Ready, Pending, Valid, and Unreachable of Complete: the only Clusters that
// have not followed this generation cannot be reached.
const (
	// ReasonInvalid, with False, means that the rule contradicts itself, or asks for what is never done. Change the rule.
	ReasonInvalid = "Invalid"

	// ReasonNotAllowed, with False, means that the hub's configuration (allow) does not have what the rule does. The operator of the
	// hub decides about it.
	ReasonNotAllowed = "NotAllowed"

	// ReasonFollowing, with True, means that the Clusters have followed the rule.
	ReasonFollowing = "Following"

	// ReasonIncomplete, with False, means that Clusters have not followed this generation yet. The message names some of them, and
	// status.problems has what they lack.
	ReasonIncomplete = "Incomplete"

	// ReasonNoClusters, with True, means that the rule selects no Cluster that runs the module sync.
	ReasonNoClusters = "NoClusters"

	// ReasonEnding, with False, means that the rule is being deleted, and remotes are told so.
	ReasonEnding = "Ending"

	// ReasonHeld, with True, means that an edit gives up more copies than a rule may delete in a remote. Compare the rule with what it
	// was; if the deletes are meant, set the annotation that the message has.
	ReasonHeld = "Held"
)

// SyncProblemReason is why a rule does not do all that it should in a Cluster.
//
// +kubebuilder:validation:Enum=PermissionMissing;KindMissing;VersionMissing;ScopeDiffers;FieldNotDeclared;NamespaceMissing;Conflict;Rejected;Contended;Held;Waiting;OverLimit;PatchFailed
type SyncProblemReason string

const (
	// SyncPermissionMissing means that the hub lacks a permission in the hub or in the remote. The object is what it lacks. Apply
	// the roles that hub rbac --rules prints.
	SyncPermissionMissing SyncProblemReason = "PermissionMissing"

	// SyncKindMissing means that the hub or the remote does not serve the kind. Install its definition there.
	SyncKindMissing SyncProblemReason = "KindMissing"

	// SyncVersionMissing means that the hub or the remote serves the kind in other versions only. Install the version of the
	// rule there.
	SyncVersionMissing SyncProblemReason = "VersionMissing"

	// SyncScopeDiffers means that the kind has namespaces in one of the clusters or in the rule, and not in the other.
	// Install the same definition in both, and give the rule namespaces only for a kind that has them.
	SyncScopeDiffers SyncProblemReason = "ScopeDiffers"

	// SyncFieldNotDeclared means that the definition in the target lacks a field that originals have. Install that of the
	// originals there.
	SyncFieldNotDeclared SyncProblemReason = "FieldNotDeclared"

	// SyncNamespaceMissing means that the target lacks a namespace. Create it, or use to.createNamespace.
	SyncNamespaceMissing SyncProblemReason = "NamespaceMissing"

	// SyncConflict means that an object of another owner has the name of a copy. It is not touched: delete or rename it, or use adopt.
	SyncConflict SyncProblemReason = "Conflict"

	// SyncRejected means that the target refuses a copy. The event of the original says why.
	SyncRejected SyncProblemReason = "Rejected"

	// SyncContended means that another writer keeps changing a copy. Leave its fields to it with exclude.
	SyncContended SyncProblemReason = "Contended"

	// SyncHeld means that an edit of the rule gives up more copies than it may delete. The condition Held has the
	// annotation that allows it.
	SyncHeld SyncProblemReason = "Held"

	// SyncWaiting means that writes wait for the rate limit.
	SyncWaiting SyncProblemReason = "Waiting"

	// SyncOverLimit means that the remote has more originals than a rule may bring into the hub: 1 000 objects and 10Mi, unless
	// limits of the configuration of the module sync say otherwise.
	SyncOverLimit SyncProblemReason = "OverLimit"

	// SyncPatchFailed means that a patch does not fit an original. The event of the original says why.
	SyncPatchFailed SyncProblemReason = "PatchFailed"
)
