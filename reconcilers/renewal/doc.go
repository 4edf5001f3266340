// SPDX-License-Identifier: Apache-2.0

/*
Package renewal keeps the tokens of remotes from expiring.

A Secret in the credentials namespace that holds the token of a ServiceAccount (keys token, server and
ca.crt) asks for it with an annotation that names the ServiceAccount:

	clusterfx.dev/renew-token: kube-system/clusterfx-hub

When two thirds of the token's life are over, the hub asks the remote for another one of the same length
(TokenRequest), with the token itself, and puts it into the Secret. What follows is the rotation of any
credential: package cluster reads the Secret, and the registry swaps the token under the running app.

# Usage

	fx.Supply(renewal.Settings{Namespace: hubv1.DefaultNamespace}),
	renewal.Module,

The hub needs the rights of Rules in the credentials namespace. The ServiceAccount needs, in its own, the
right to create the subresource token of itself and of no other:

	{apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [clusterfx-hub], verbs: [create]}

# How it works

When a token is due follows from the token alone: from its claims iat and exp, which nothing has to verify,
since whoever can write the Secret can write any token. So a restart forgets nothing, and a renewal that
was cut off after the remote has answered is done again; the token that nobody has seen expires unused. The
Secret is patched with its resourceVersion: where somebody has rotated it meanwhile, theirs stays.

A token that cannot be renewed is tried again with backoff, up to five minutes apart, and an event of the
Cluster says why. The condition CredentialsValid says ExpiringSoon when it comes to that. A remote that is
away is asked when it is back, if its token still lives then; else somebody has to register it anew.

# Considerations

The old token is not revoked: Kubernetes can revoke a token of a ServiceAccount only together with the
ServiceAccount or with the Secret that it is bound to. It ends by itself, a third of its life later at
the latest. The annotation clusterfx.dev/token-secret names a Secret of the remote that new tokens are bound
to, as "hub register" does it, so that "hub rotate" can revoke all that came from it.

A kubeconfig is not rewritten. It may say more than we know of, and belongs to whoever wrote it.
*/
package renewal
