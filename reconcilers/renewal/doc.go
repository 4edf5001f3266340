// SPDX-License-Identifier: Apache-2.0

/*
Package renewal keeps the tokens of remotes from expiring.

A Secret in the credentials namespace that holds the token of a ServiceAccount (keys token, server and
ca.crt) asks for it with an annotation that names the ServiceAccount:

	clusterfx.dev/renew-token: kube-system/clusterfx-hub

When two thirds of the token's life are over, the hub asks the remote for another one with the same lifetime
(TokenRequest), with the token itself, and puts it into the Secret. What follows is the rotation of any
credential: package cluster reads the Secret, and the registry swaps the token under the running app.

# Usage

	fx.Supply(renewal.Settings{Namespace: hubv1.DefaultNamespace}),
	renewal.Module,

The hub needs the rights of Rules in the credentials namespace. The ServiceAccount needs, in its own, the
right to create the subresource token of itself and of no other:

	{apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [clusterfx-hub], verbs: [create]}

# How it works

Together with a token the hub writes an annotation, clusterfx.dev/token-renewal: when it wrote the token, by its own
clock, for which lifetime it asked, which one the remote granted if that is shorter, and when the token expires. The
next renewal is due two thirds of the shorter lifetime later, or of the time until the token expires if that is shorter. The time at which a remote claims to have issued a
token does not count. Due times survive a restart, because the annotation does. A renewal that is interrupted after the
response of the remote is repeated; the first token expires unused. The patch of the Secret carries its
resourceVersion: if somebody rotates the token meanwhile, the hub leaves the rotated token in place.

A token that the hub has not requested has no annotation with its expiry. It is due by its claims iat and exp, once, and
at once if it was issued in the future: then the clock of the remote is ahead, and the token ends earlier than it claims.

The hub writes a Secret at most once in 5 minutes, whatever a remote responds; otherwise the patch, which triggers the
reconciler, could start an endless loop. The annotation keeps that promise across restarts. An annotation that cannot be
decoded, or whose time is in the future, delays the renewal by 5 minutes, and the renewal replaces it.

The hub checks a new token before it stores it. It refuses a token that is larger than 16 KiB or makes the Secret too
large to be read, is not a JWT, ends within 10 minutes, or lives for less than half of the lifetime that was asked for.
The old token stays in place then, and the event TokenRefused says why. A token that ends before the old one is stored
if it lives as long as was asked for: the clock of the remote may have been set. Because of these rules the hub asks for
20 minutes at least.

A token that cannot be renewed is retried with backoff, up to five minutes apart, and the event RenewalFailed says why.
The condition CredentialsValid gets the reason ExpiringSoon when the old token comes near its end. A remote that is away
is asked for a token when it returns, if the old token is still valid then. If it is not, register the remote again.

# Considerations

The old token is not revoked: Kubernetes can revoke a token of a ServiceAccount only together with the
ServiceAccount or with the Secret that it is bound to. It ends by itself, a third of its life later at
the latest. The annotation clusterfx.dev/token-secret names a Secret of the remote that new tokens are bound
to, as "hub register" does it, so that "hub rotate" can revoke all that came from it.

A kubeconfig is not rewritten. It may say more than we know of, and belongs to whoever wrote it.
*/
package renewal
