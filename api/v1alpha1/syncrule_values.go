// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// SyncSource has the originals of a rule.
//
// +kubebuilder:validation:Enum=Hub;Remote
type SyncSource string

const (
	// SyncFromHub copies from the hub to the remotes.
	SyncFromHub SyncSource = "Hub"

	// SyncFromRemote copies from each remote to the hub.
	SyncFromRemote SyncSource = "Remote"
)

// SyncMode is what a rule does.
//
// +kubebuilder:validation:Enum=Enforce;Create;Observe
type SyncMode string

const (
	// SyncEnforce keeps the copies equal to their originals. It is the default.
	SyncEnforce SyncMode = "Enforce"

	// SyncCreate makes a copy whenever it is absent, and never changes it.
	SyncCreate SyncMode = "Create"

	// SyncObserve writes nothing, and records as events what it would write.
	SyncObserve SyncMode = "Observe"
)

// SyncNaming is how copies are named.
//
// +kubebuilder:validation:Enum=Mirror;Translated
type SyncNaming string

const (
	// SyncMirror keeps the names of the originals.
	SyncMirror SyncNaming = "Mirror"

	// SyncTranslated gives names that never collide: they have the name, the namespace and the source of the original.
	SyncTranslated SyncNaming = "Translated"
)

// SyncAdopt says which objects of the target become copies.
//
// +kubebuilder:validation:Enum=Never;IfEqual
type SyncAdopt string

const (
	// SyncAdoptNever reports a conflict of names. It is the default.
	SyncAdoptNever SyncAdopt = "Never"

	// SyncAdoptIfEqual adopts what has the content of the copy, metadata and status aside.
	SyncAdoptIfEqual SyncAdopt = "IfEqual"
)

// SyncOnTargetDeletion is for copies that another client deletes.
//
// +kubebuilder:validation:Enum=Recreate;Propagate
type SyncOnTargetDeletion string

const (
	// SyncRecreate makes the copy again. It is the default.
	SyncRecreate SyncOnTargetDeletion = "Recreate"

	// SyncPropagate deletes the original.
	SyncPropagate SyncOnTargetDeletion = "Propagate"
)

// SyncEnd is what happens to copies when their rule or their Cluster is deleted.
//
// +kubebuilder:validation:Enum=Keep;Delete
type SyncEnd string

const (
	// SyncKeep leaves the copies: of a deleted rule with an annotation in place of the label of a copy. It is the default.
	SyncKeep SyncEnd = "Keep"

	// SyncDelete deletes the copies.
	SyncDelete SyncEnd = "Delete"
)

// SyncReturn says whether something is brought from copies to originals.
//
// +kubebuilder:validation:Enum=Ignore;Return
type SyncReturn string

const (
	// SyncIgnore leaves the status of the original as it is. It is the default.
	SyncIgnore SyncReturn = "Ignore"

	// SyncReturnStatus brings the status of the copy to the original.
	SyncReturnStatus SyncReturn = "Return"
)

// SyncCreation says whether something that the copies need is made.
//
// +kubebuilder:validation:Enum=Never;IfAbsent
type SyncCreation string

const (
	// SyncCreateNever makes nothing. It is the default.
	SyncCreateNever SyncCreation = "Never"

	// SyncCreateIfAbsent makes what is absent, and never changes or deletes it.
	SyncCreateIfAbsent SyncCreation = "IfAbsent"
)
