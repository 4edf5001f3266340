// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// DefaultNamespace is the credentials namespace of a hub that is not told to use another one.
const DefaultNamespace = "clusterfx-system"

// Labels and annotations of a Secret in the credentials namespace. With them a Secret alone
// registers a remote.
const (
	// LabelCluster set to LabelClusterValue on a Secret makes the hub create a Cluster from it, and
	// follow it until the Secret is deleted.
	LabelCluster = "clusterfx.dev/cluster"

	// LabelClusterValue is the only value of LabelCluster that has an effect.
	LabelClusterValue = "true"

	// AnnotationClusterName names the Cluster that is made from the Secret. Without it the Cluster
	// has the name of the Secret.
	AnnotationClusterName = "clusterfx.dev/cluster-name"

	// AnnotationClusterLabels holds the labels of the Cluster that is made from the Secret, as
	// key=value pairs separated by commas. Keys of clusterfx.dev are refused, and labels that an editor of
	// the Cluster has set, changed or removed stay as they are. The annotation of the Cluster records which
	// of its labels came from the Secret, with their values. Only the hub writes that.
	AnnotationClusterLabels = "clusterfx.dev/cluster-labels"

	// AnnotationRenewToken names, as namespace/name, the ServiceAccount in the remote whose token the
	// Secret holds under the key token. The hub then renews it before it expires.
	AnnotationRenewToken = "clusterfx.dev/renew-token"

	// AnnotationTokenRenewal is written by the hub together with a token that it has renewed: when, by the
	// clock of the hub, for which lifetime it asked, which shorter one was granted, and when the token expires.
	// From it follow when the token is renewed next, and that the Secret is not written more often than once in
	// 5 minutes. Only the hub writes it.
	AnnotationTokenRenewal = "clusterfx.dev/token-renewal"

	// AnnotationTokenSecret names a Secret in the remote, in the namespace of the ServiceAccount that
	// AnnotationRenewToken names. The tokens that the hub asks for are good as long as it exists, so that
	// whoever deletes it revokes them. "hub register" writes it.
	AnnotationTokenSecret = "clusterfx.dev/token-secret"
)

// Annotations of a Cluster.
const (
	// AnnotationID is the identity of the remote, recorded by the hub at its first contact: the UID
	// of the namespace kube-system. It is the guard of the identity check, for which status would be
	// the wrong place: status is a report that may be lost. Only the hub writes it.
	AnnotationID = "clusterfx.dev/id"

	// AnnotationAcceptID is written by an operator to accept that the Cluster now leads to another
	// remote. Its value is the new identity, as the IdentityConfirmed condition prints it. The hub
	// then records that identity in AnnotationID.
	AnnotationAcceptID = "clusterfx.dev/accept-id"

	// AnnotationAcceptCredentials is written by an operator to have the credentials in the Secret used although
	// the remote refuses them, although they could not be tried, or although they have expired by the clock of the hub.
	// Its value is their fingerprint, as the CredentialsValid condition prints it with ReasonNotInUse and ReasonExpired,
	// so that it does not accept later ones. The app ends before they are used, unless the remote accepts them.
	AnnotationAcceptCredentials = "clusterfx.dev/accept-credentials"

	// AnnotationAllowHub set to AnnotationAllowHubValue is written by an operator who means it that
	// the Cluster leads to the hub's own cluster. Without it nothing runs there. A hub registered by a
	// Secret alone needs it too, on its Cluster: who may write Secrets has no say in this.
	AnnotationAllowHub = "clusterfx.dev/allow-hub"

	// AnnotationAllowHubValue is the only value of AnnotationAllowHub that has an effect.
	AnnotationAllowHubValue = "true"

	// AnnotationRetry is written by an operator to end the quarantine of a Cluster before its time.
	// Any value will do that it has not had before, for example the time of day. If the hub crashes
	// again, the Cluster is quarantined again, for twice as long.
	AnnotationRetry = "clusterfx.dev/retry"

	// AnnotationObserve, with any value but AnnotationObserveOff, is written by an operator who wants to see what the
	// modules would do to a remote before they may do it. Every write to the remote becomes a dry run, and
	// an event of the Cluster says what it would have been. It takes effect with the next request of what
	// runs already, and so does its removal. When an observed Cluster is deleted, what its modules have made
	// earlier stays: their cleanup is a dry run, too.
	AnnotationObserve = "clusterfx.dev/observe"

	// AnnotationObserveOff is the only value of AnnotationObserve that has no effect.
	AnnotationObserveOff = "false"

	// AnnotationSecretUID is the UID of the Secret from which the hub made the Cluster. A Cluster
	// without it was made by somebody else and is never adopted, changed or deleted on behalf of a
	// Secret. Only the hub writes it, when it creates the Cluster.
	AnnotationSecretUID = "clusterfx.dev/secret-uid"

	// AnnotationSecretName is the name of the Secret from which the hub made the Cluster. Only the
	// hub writes it, together with AnnotationSecretUID.
	AnnotationSecretName = "clusterfx.dev/secret-name"

	// AnnotationSecretMissingSince is the time, in RFC 3339, at which the hub first saw that the
	// Secret from which it made the Cluster is gone or does not ask for it any more. The hub removes
	// it when the Secret comes back, and deletes the Cluster when it does not.
	AnnotationSecretMissingSince = "clusterfx.dev/secret-missing-since"
)

// FinalizerCluster keeps a Cluster until its app has been stopped. The hub adds it alone, before the
// first side effect, and removes it alone. It is removed without the Secret and without an answer of
// the remote.
const FinalizerCluster = "clusterfx.dev/cluster"
