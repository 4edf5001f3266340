// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// DefaultNamespace is the credentials namespace of a hub without --credentials-namespace.
const DefaultNamespace = "clusterfx-system"

// RehearsalNamespace has the Secrets with which "hub rehearse" reaches the remotes, by the names of the hub's.
const RehearsalNamespace = "clusterfx-rehearsal"

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

	// AnnotationTokenRenewal is written by the hub together with a token that it has renewed: the time of the renewal
	// by the clock of the hub, the requested lifetime, the granted lifetime if it is shorter, and the expiry of the
	// token. The hub derives the time of the next renewal from it, and writes the Secret at most once in 5 minutes.
	// Only the hub writes it.
	AnnotationTokenRenewal = "clusterfx.dev/token-renewal"

	// AnnotationTokenSecret names a Secret in the remote, in the namespace of the ServiceAccount that
	// AnnotationRenewToken names. The tokens that the hub requests are valid as long as this Secret exists, so that
	// deleting it revokes them. "hub register" writes it.
	AnnotationTokenSecret = "clusterfx.dev/token-secret"

	// AnnotationTunnelKeys says whose agent may connect for the Cluster of the Secret: the name and the UID of the Cluster, as
	// name/uid, and the fingerprints of one or two keys, separated by spaces. A key that two Secrets name serves neither.
	// "hub accept" and "hub register" write it; without it no agent can connect.
	AnnotationTunnelKeys = "clusterfx.dev/tunnel-keys"

	// AnnotationRehearsal on a Secret says that there is one of its name in the RehearsalNamespace, whose token the hub
	// renews, too. "hub register --rehearsal" writes it.
	AnnotationRehearsal = "clusterfx.dev/rehearsal"
)

// TunnelSecretName is the name of the Secret in the credentials namespace with the key of the hub for tunnels, under
// TunnelSecretKey, in PEM. "hub register --tunnel" makes it.
const (
	TunnelSecretName = "clusterfx-tunnel"
	TunnelSecretKey  = "key.pem"
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

	// AnnotationAllowHub set to AnnotationAllowHubValue is written by an operator to allow that the Cluster leads to
	// the hub's own cluster. Without it nothing runs there. A hub that is registered by a Secret alone also needs it on
	// its Cluster: permission to write Secrets is not enough.
	AnnotationAllowHub = "clusterfx.dev/allow-hub"

	// AnnotationAllowHubValue is the only value of AnnotationAllowHub that has an effect.
	AnnotationAllowHubValue = "true"

	// AnnotationRetry is written by an operator to end the quarantine of a Cluster before its time. Any new value
	// works, for example the time of day. If the hub crashes again, the Cluster is quarantined again, for twice as
	// long.
	AnnotationRetry = "clusterfx.dev/retry"

	// AnnotationCrashes says how often and when the app of the Cluster ended a process of the hub, and how that is known. The hub
	// writes it, starts the app later, and removes it when the app has been Ready for a while.
	AnnotationCrashes = "clusterfx.dev/crashes"

	// AnnotationObserve, with any value but AnnotationObserveOff, is written by an operator to see the changes that
	// modules would make to a remote before they may make them. Every write to the remote becomes a dry run, and an
	// event of the Cluster describes the write. The annotation and its removal take effect with the next request of
	// running modules. When an observed Cluster is deleted, objects that its modules made earlier stay: their cleanup
	// is a dry run, too.
	AnnotationObserve = "clusterfx.dev/observe"

	// AnnotationObserveOff is the only value of AnnotationObserve that has no effect.
	AnnotationObserveOff = "false"

	// AnnotationAllowDeletes is written by an operator to allow deletes that the condition DeletesHeld shows: the id of the
	// hold, "=" and how many objects it allows in all, for several holds separated by commas. The same value or a smaller
	// number has no effect, and neither has the id of a hold that has ended. The ConfigMap clusterfx-deletes has the
	// annotation for holds in the hub or in all clusters.
	AnnotationAllowDeletes = "clusterfx.dev/allow-deletes"

	// AnnotationSecretUID is the UID of the Secret from which the hub made the Cluster. A Cluster without it has
	// another creator and is never adopted, changed or deleted on behalf of a Secret. Only the hub writes it, when it
	// creates the Cluster.
	AnnotationSecretUID = "clusterfx.dev/secret-uid"

	// AnnotationSecretName is the name of the Secret from which the hub made the Cluster. Only the
	// hub writes it, together with AnnotationSecretUID.
	AnnotationSecretName = "clusterfx.dev/secret-name"

	// AnnotationSecretNamespace is the namespace of that Secret. A hub with another credentials namespace leaves the Cluster as it is.
	// Only the hub writes it, together with AnnotationSecretUID.
	AnnotationSecretNamespace = "clusterfx.dev/secret-namespace"

	// AnnotationDeregister, with the UID of the Cluster as its value, says that a person removes this Cluster: its removal does not
	// count towards the limit of the fleet. "hub deregister" writes it before it deletes the Cluster.
	AnnotationDeregister = "clusterfx.dev/deregister"

	// AnnotationSecretMissingSince is the time, in RFC 3339, at which the hub first saw that the Secret from which it
	// made the Cluster is gone or no longer has the label. The hub removes it when the Secret comes back, and deletes
	// the Cluster when it does not.
	AnnotationSecretMissingSince = "clusterfx.dev/secret-missing-since"
)

// FinalizerCluster keeps a Cluster until its app has been stopped. The hub adds it before the first side effect, alone or
// to a Cluster that it makes from a Secret, and removes it alone. Its removal needs neither the Secret nor a response of the remote.
const FinalizerCluster = "clusterfx.dev/cluster"

// LabelAggregateToSync with the value true on a ClusterRole in a remote gives its permissions to the account of the hub, for rules of
// sync. "hub rbac --in remote --rules" prints such roles; the owner of the remote applies them.
const LabelAggregateToSync = "clusterfx.dev/aggregate-to-sync"
