// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of a Cluster. The Cluster reconciler sets all of them from the reports of the registry, but for
// ReasonRunnerLost, which replaces the last report of a replica that has ended. The first
// five are always present and have positive polarity: True is good.
const (
	// ConditionReady is the summary: the remote can be used and its modules run. It has the status
	// of the first of CredentialsValid, Reachable, IdentityConfirmed and ModulesReady that is not
	// True, and its reason and message too; an IdentityConfirmed that is Unknown because of
	// ReasonForbidden does not count. A Cluster without a runner has ReasonRunnerLost.
	ConditionReady = "Ready"

	// ConditionCredentialsValid reports whether the Secret was read, parsed and accepted. It is False as soon as the
	// hub has read a bad Secret, even while the app continues with its last good credentials.
	ConditionCredentialsValid = "CredentialsValid"

	// ConditionReachable reports whether the remote responds to the probes.
	ConditionReachable = "Reachable"

	// ConditionIdentityConfirmed reports whether the remote is the cluster that was registered. The hub checks it
	// before any module starts. While Reachable is not True it is Unknown with the reason of Reachable, or stays False.
	ConditionIdentityConfirmed = "IdentityConfirmed"

	// ConditionModulesReady reports whether the app has been built and started with every module that was selected for
	// the remote and can run there. A module that waits for an API, a version or a permission of the remote is left out
	// of the app and does not make it False; status.modules has the reason why it waits.
	ConditionModulesReady = "ModulesReady"

	// ConditionAuthorized reports whether the credentials have the permissions that the modules declare, and exists
	// only while a module declares any. It is not part of Ready: a missing permission blocks only the module that needs
	// it. While Reachable is not True it is Unknown with the reason of Reachable.
	ConditionAuthorized = "Authorized"

	// ConditionDeletesHeld exists only while it is True: deletes of a module in the remote are held, because the module has
	// deleted more objects than it may without evidence. It is not part of Ready: everything else continues. The message
	// has a sentence for each hold, with the id by which AnnotationAllowDeletes allows its deletes, and names of objects.
	ConditionDeletesHeld = "DeletesHeld"

	// ConditionReconciling exists only while it is True: the hub is working towards the spec and the result is not
	// known yet. kstatus calls this state in progress.
	ConditionReconciling = "Reconciling"

	// ConditionStalled exists only while it is True: nothing is likely to change until the Cluster, its Secret, the
	// remote or the hub is changed, although the hub retries from time to time an app that failed five times in a row
	// or is quarantined. Its reason is the reason of Ready. kstatus calls this state failed.
	ConditionStalled = "Stalled"
)

// Reasons of DeletesHeld.
const (
	// ReasonLimitExceeded, with True, means that a module has deleted more objects in the remote than it may without
	// evidence. The hold ends when the module has asked for none of the held deletes for ten minutes. Find out why the module
	// deletes, then hub deletes allow.
	ReasonLimitExceeded = "LimitExceeded"

	// ReasonStoreUnavailable, with True, means that the hub refused deletes in the remote because it cannot read or
	// write the ConfigMap in which it keeps the holds. Apply the roles of the installation again.
	ReasonStoreUnavailable = "StoreUnavailable"
)

// Reasons that more than one condition uses.
const (
	// ReasonPending, with Unknown, is the reason of every condition that has not been looked at yet. The API server
	// sets it on Ready when the Cluster is created; the hub sets it on the conditions after the first condition that is
	// not True. If Ready keeps it, no hub works: hub check.
	ReasonPending = "Pending"

	// ReasonStopping, with Unknown, is the reason of ModulesReady while an app is being taken down,
	// and of Ready while the Cluster is being deleted.
	ReasonStopping = "Stopping"

	// ReasonPaused, with Unknown, is the reason of Reachable, Authorized, ModulesReady and Ready while
	// spec.state is Paused: nothing runs, so nothing is known. hub resume starts it.
	ReasonPaused = "Paused"

	// ReasonForbidden means that the remote knows the credentials but denies the request. With False it is set on
	// Reachable when the remote refuses the probe; with Unknown on IdentityConfirmed when the credentials may not read
	// the namespace kube-system, which does not block Ready. With False it is set on ModulesReady, too, when a module
	// may not watch a kind that it needs: add the rule that the message names to the module, or grant it as hub rbac prints.
	ReasonForbidden = "Forbidden"
)

// Reasons of CredentialsValid. The hub sets them when it has read the Secret, without contacting the
// remote, but for ReasonNotInUse; ReasonExpired and ReasonExpiringSoon also when time passes.
const (
	// ReasonValid, with True: the credentials are acceptable and not about to expire.
	ReasonValid = "Valid"

	// ReasonExpiringSoon, with True: the credentials expire within seven days, and less than a sixth of their life is left. Renew
	// them: hub rotate, or a new Secret.
	ReasonExpiringSoon = "ExpiringSoon"

	// ReasonSecretNotFound, with False: the hub's credentials namespace holds no Secret of that name.
	ReasonSecretNotFound = "SecretNotFound"

	// ReasonKeyNotFound, with False: the Secret has neither the key that the Cluster names nor any known key. Put the
	// kubeconfig under kubeconfig, or name its key.
	ReasonKeyNotFound = "KeyNotFound"

	// ReasonInvalidKubeconfig, with False: the data cannot be parsed, is incomplete, contradicts
	// itself or does not contain the named context. The message has the place.
	ReasonInvalidKubeconfig = "InvalidKubeconfig"

	// ReasonExecNotAllowed, with False: the kubeconfig runs a command to get a credential. Nothing
	// allows this: use a token or a certificate.
	ReasonExecNotAllowed = "ExecNotAllowed"

	// ReasonInsecureTLSNotAllowed, with False: the kubeconfig turns off the verification of the
	// remote's certificate. Add its CA, or start the hub with --insecure-kubeconfig-tls.
	ReasonInsecureTLSNotAllowed = "InsecureTLSNotAllowed"

	// ReasonFilePathNotAllowed, with False: the kubeconfig names a file instead of containing the
	// data. Nothing allows this: kubectl config view --raw --flatten --minify writes the data.
	ReasonFilePathNotAllowed = "FilePathNotAllowed"

	// ReasonAuthProviderNotAllowed, with False: the kubeconfig uses an auth provider. Use a token or a certificate.
	ReasonAuthProviderNotAllowed = "AuthProviderNotAllowed"

	// ReasonImpersonationNotAllowed, with False: the kubeconfig impersonates another user. Remove the field as.
	ReasonImpersonationNotAllowed = "ImpersonationNotAllowed"

	// ReasonBasicAuthNotAllowed, with False: the kubeconfig holds a user name and a password. Use a token or a certificate.
	ReasonBasicAuthNotAllowed = "BasicAuthNotAllowed"

	// ReasonSchemeNotAllowed, with False: the server is not an https URL.
	ReasonSchemeNotAllowed = "SchemeNotAllowed"

	// ReasonProxyNotAllowed, with False: the kubeconfig or the Cluster names a proxy, and the operator has not allowed
	// proxies with --allow-proxy-url.
	ReasonProxyNotAllowed = "ProxyNotAllowed"

	// ReasonAddressNotAllowed, with False: the hub does not dial the server's address, for example loopback, link-local
	// or a range that the operator denies. Use another address (hub register --cluster-server, spec.server), or start the hub with
	// --allow-cidr.
	ReasonAddressNotAllowed = "AddressNotAllowed"

	// ReasonTooLarge, with False: the data is larger than a kubeconfig may be. Keep the cluster, the user and the context in use.
	ReasonTooLarge = "TooLarge"

	// ReasonExpired, with False: the certificate or the token is past its end, and the last good ones stay in use: hub rotate, or a
	// new Secret. With True: it is, and AnnotationAcceptCredentials demands it.
	ReasonExpired = "Expired"

	// ReasonNotInUse, with False: the remote refuses the credentials in the Secret, or they lead to another
	// cluster. With Unknown: they could not be tried. The last good ones stay in use, Ready is not affected, and
	// the hub tries the new ones again. Correct the Secret, or put the fingerprint from the message into
	// AnnotationAcceptCredentials.
	ReasonNotInUse = "NotInUse"
)

// Reasons of Reachable. The hub sets them from the probe of the remote: a False one after
// spec.probe.failureThreshold failures in a row, ReasonProbeSucceeded after successThreshold
// successes.
const (
	// ReasonProbeSucceeded, with True: the remote responds and reports that it is ready.
	ReasonProbeSucceeded = "ProbeSucceeded"

	// ReasonUnreachable, with False: no connection, for example because it is refused, there is no
	// route, or the name cannot be resolved. Look at the network between the hub and the address in the Secret.
	ReasonUnreachable = "Unreachable"

	// ReasonTimedOut, with False: there was no response in time: the network, or a firewall that drops packets. A slow remote may need
	// a higher spec.probe.timeoutSeconds.
	ReasonTimedOut = "TimedOut"

	// ReasonTLSFailed, with False: the remote's certificate was not accepted, or the handshake failed. Compare the CA in
	// the Secret with that of the server, and spec.tlsServerName with its names.
	ReasonTLSFailed = "TLSFailed"

	// ReasonUnauthorized, with False: the remote does not accept the credentials, which may have been
	// revoked or have expired: hub rotate, or a new Secret.
	ReasonUnauthorized = "Unauthorized"

	// ReasonNotHealthy, with False: the remote responds, but reports that it is not ready, or does not respond like a
	// Kubernetes API server: kubectl get --raw '/readyz?verbose'.
	ReasonNotHealthy = "NotHealthy"

	// ReasonNotForwarded, with False: a server on the way, such as a proxy whose agent is away, responds with 404 in place of the
	// remote. That is no statement about any object. Look at the proxy, and the path of the server's URL.
	ReasonNotForwarded = "NotForwarded"

	// ReasonThrottled, with True: the remote responds to probes with status 429, which asks the hub to wait. Its app stays. With False:
	// it has responded so since the hub contacted it first. Look at its priority and fairness settings.
	ReasonThrottled = "Throttled"

	// ReasonVersionUntested, with True: the remote responds, and runs a version of Kubernetes that the hub is not tested with. The hub
	// works with it as with any other. Upgrade the remote if it is old, the hub if it is new.
	ReasonVersionUntested = "VersionUntested"

	// ReasonTunnelDown, with False: the hub reaches the remote through a tunnel (spec.via), and its agent is not connected or is not
	// accepted; the message says which. Look at status.tunnel and the agent's log in the remote, and run there hub agent --check.
	ReasonTunnelDown = "TunnelDown"
)

// Reasons of IdentityConfirmed. The hub sets them after the first successful probe of an app and
// before any module starts.
const (
	// ReasonSameCluster, with True: the remote has the identity that was recorded.
	ReasonSameCluster = "SameCluster"

	// ReasonFirstContact, with True: no identity was recorded before. It is a reason of the registry: a hub records the identity
	// and reports SameCluster.
	ReasonFirstContact = "FirstContact"

	// ReasonIdentityChanged, with False: the credentials lead to another remote than before. Nothing runs until the old
	// remote is back or an operator accepts the new remote, such as a cluster that was rebuilt, with AnnotationAcceptID.
	ReasonIdentityChanged = "IdentityChanged"

	// ReasonDuplicateRegistration, with False: an older Cluster leads to the same remote. Delete one of the two.
	ReasonDuplicateRegistration = "DuplicateRegistration"

	// ReasonIsHub: the credentials lead to the hub's own cluster. With False nothing runs there; with True the operator
	// has allowed it, see AnnotationAllowHub.
	ReasonIsHub = "IsHub"
)

// Reasons of ModulesReady. The hub sets them as the app moves on; the message names the module.
const (
	// ReasonRunning, with True: every selected module runs.
	ReasonRunning = "Running"

	// ReasonStarting, with Unknown: the app is being built, its caches are filling, or it has its objects and waits because
	// another hub has the remote at work.
	ReasonStarting = "Starting"

	// ReasonBuildFailed, with False: the app could not be constructed: the message names the module, hub graph --validate the missing
	// dependency.
	ReasonBuildFailed = "BuildFailed"

	// ReasonStartFailed, with False: the app was constructed, but a start hook failed or took too
	// long. The message names the module.
	ReasonStartFailed = "StartFailed"

	// ReasonCacheSyncTimedOut, with False: a cache of the app did not fill within ten minutes; the message names the kind.
	ReasonCacheSyncTimedOut = "CacheSyncTimedOut"

	// ReasonModuleFailed, with False: a module failed or panicked while the app ran. The hub starts the app again after 1 s, 2 s
	// and so on up to 2 min; its log has the error. Leave the module out with spec.modules until it is fixed.
	ReasonModuleFailed = "ModuleFailed"

	// ReasonOverBudget, with False: the app used more than a remote may use of the hub: set spec.namespaces, filter the cache of the
	// module, or raise --max-cache-bytes-per-cluster or --max-objects-per-cluster.
	ReasonOverBudget = "OverBudget"

	// ReasonStale: the app runs, but an informer of it has been unable to list and watch its kind for more than 30
	// seconds, so that modules work on old objects. The message names the kind, a module that uses it, since when,
	// and the cause. It is True for two minutes, and False after that; it is Unknown, in place of True, for an app that
	// waits because another hub has the remote at work. In status.modules it is the reason of the modules that use the
	// kind.
	ReasonStale = "Stale"

	// ReasonQuarantined, with False: the app ended a process of the hub, so it is left alone: for a minute, and twice as long after
	// each further crash, up to a day. The message has the time, the evidence and the command that ends it earlier, as a change
	// of the spec does.
	ReasonQuarantined = "Quarantined"

	// ReasonWaiting, with False: a module of a starting app watches a kind that the remote does not serve or does not
	// allow to watch, or spec.modules names a module that this hub does not have. In status.modules it is the reason of
	// that module. Install the CRD, or correct the name.
	ReasonWaiting = "Waiting"
)

// ReasonReady is, with True, the reason of Ready when all goes well. Otherwise Ready has the reason
// of the condition that stands in its way.
const ReasonReady = "Ready"

// ReasonRunnerLost is, with Unknown, the reason of Ready when the replica of the hub that ran the app has ended, and none has
// reported the Cluster since. Another replica sets it within 25 s; the next report of a runner replaces it. The other
// conditions remain as the last runner reported them.
const ReasonRunnerLost = "RunnerLost"

// Reasons of Authorized, set by the hub after it has reviewed the permissions of the credentials in the remote. Until
// then it is Unknown with ReasonPending.
const (
	// ReasonAllowed, with True: every permission that a module declares is granted.
	ReasonAllowed = "Allowed"

	// ReasonRightsMissing, with False: the message names the modules and the permissions that they lack. Grant them: hub register again, or
	// the role that hub rbac --in remote prints. The modules start by themselves.
	ReasonRightsMissing = "RightsMissing"
)

// Reasons of Reconciling, set by the hub while the outcome of a change is not known yet.
const (
	// ReasonProgressing, with True: the first attempt is under way.
	ReasonProgressing = "Progressing"

	// ReasonProgressingWithRetry, with True: an attempt has failed and the hub retries.
	ReasonProgressingWithRetry = "ProgressingWithRetry"
)
