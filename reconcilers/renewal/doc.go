// SPDX-License-Identifier: Apache-2.0

/*
Package renewal keeps the tokens of remotes from expiring.

The hub renews the token in a Secret of the credentials namespace (keys token, server and ca.crt) that names the token's
ServiceAccount:

	clusterfx.dev/renew-token: kube-system/clusterfx-hub

After two thirds of its life the hub requests another one of the same lifetime from the remote (TokenRequest), with the old one,
and writes it to the Secret. The registry replaces it in the running app. The hub needs Rules; the ServiceAccount may create the
subresource token of itself:

	{apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [clusterfx-hub], verbs: [create]}

The annotation clusterfx.dev/token-renewal has the time of the write by the hub's clock, the lifetimes requested and granted, and
the expiry. So due times survive a restart, and the remote's clock does not count. A token without it is due by its claims iat
and exp, once, and at once if it was issued in the future. The patch carries the resourceVersion, so a rotation by others stays.
A Secret is written once in 5 minutes at most, as its own event triggers the reconciler; a bad annotation delays by that.

A new token is refused, with the event TokenRefused, if it is larger than 16 KiB or makes the Secret too large, is not a JWT, ends
within 10 minutes, or lives for less than half of the requested lifetime and ends before the old one. So the hub requests at
least 20 minutes. Failures are retried up to five minutes apart, with the event RenewalFailed; CredentialsValid becomes
ExpiringSoon. If the token expires while the remote is away, register the remote again.

The old token expires by itself: Kubernetes revokes it only with its ServiceAccount, or with the Secret of the remote named by
clusterfx.dev/token-secret, to which "hub register" binds tokens for "hub rotate". Kubeconfigs are not rewritten: they
may have fields that the hub does not know.
*/
package renewal
