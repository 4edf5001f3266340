// SPDX-License-Identifier: Apache-2.0

/*
Package renewal keeps the tokens of remotes from expiring.

The hub renews the token in a Secret of the credentials namespace (keys token, server and ca.crt) if the Secret has an
annotation that names the token's ServiceAccount:

	clusterfx.dev/renew-token: kube-system/clusterfx-hub

After two thirds of the token's life, the hub requests another token with the same lifetime from the remote
(TokenRequest), with the old token as its credential, and writes the new token to the Secret. From there the rotation
is the same as for any credential: package cluster reads the Secret, and the registry replaces the token of the
running app.

# Usage

	fx.Supply(renewal.Settings{Namespace: hubv1.DefaultNamespace}),
	renewal.Module,

The hub needs the permissions of Rules in the credentials namespace. The ServiceAccount needs, in its own namespace,
the permission to create the subresource token of itself only:

	{apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [clusterfx-hub], verbs: [create]}

# How it works

Together with a token the hub writes an annotation, clusterfx.dev/token-renewal. It contains the time at which the hub
wrote the token, by the clock of the hub, the requested lifetime, the lifetime that the remote granted if that is
shorter, and the time at which the token expires. The next renewal is due two thirds of the shorter lifetime later, or
of the time until the token expires if that is shorter. The time at which a remote claims to have issued a token does
not count. Due times survive a restart, because the annotation does. A renewal that is interrupted after the response
of the remote is repeated; the first token expires unused. The patch of the Secret carries its resourceVersion: if
another client rotates the token meanwhile, the hub leaves the rotated token in place.

A token that the hub has not requested has no annotation with its expiry. It is due by its claims iat and exp, once, and
at once if it was issued in the future: then the clock of the remote is ahead, and the token ends earlier than it claims.

The hub writes a Secret at most once in 5 minutes, whatever the response of the remote is; otherwise the patch, which
triggers the reconciler, could start an endless loop. The annotation keeps that promise across restarts. An annotation
that cannot be decoded, or whose time is in the future, delays the renewal by 5 minutes, and the renewal replaces it.

The hub checks a new token before it stores it. It refuses a token that is larger than 16 KiB or makes the Secret too
large to be read, is not a JWT, ends within 10 minutes, or lives for less than half of the requested lifetime and ends
before the old one. The old token stays in place then, and the event TokenRefused says why. A remote that has lowered its
longest lifetime issues a token that ends after the old one in time, and the hub stores that. A token that ends before the
old one is stored if it has the requested lifetime: the clock of the remote may have been set. Because of these rules the
hub requests at least 20 minutes.

A token that cannot be renewed is retried with backoff, up to five minutes apart, and the event RenewalFailed says
why. The condition CredentialsValid gets the reason ExpiringSoon when the old token comes near its end. If a remote
cannot be reached, the hub requests the token when the remote returns and the old token is still valid. If the old
token has expired, register the remote again.

# Considerations

The old token is not revoked: Kubernetes can revoke a token of a ServiceAccount only together with the ServiceAccount
or with the Secret that it is bound to. The old token expires within a third of its life. The annotation
clusterfx.dev/token-secret names a Secret of the remote that new tokens are bound to, as "hub register" does, so that
"hub rotate" can revoke all tokens that are bound to that Secret.

The hub does not rewrite a kubeconfig. It may contain fields that the hub does not know, and it belongs to its author.
*/
package renewal
