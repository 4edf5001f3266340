// SPDX-License-Identifier: Apache-2.0

/*
Package enroll connects a remote to the hub, rotates its credential, and disconnects it.

	in the remote                          in the hub
	  ServiceAccount clusterfx-NAME          Secret NAME, with token, server and ca.crt
	  ClusterRole, ClusterRoleBinding        Cluster NAME
	  Role, RoleBinding
	  Secret clusterfx-NAME-xxxxx

The ClusterRole grants what modules declare. The Role lets the account request tokens, by which the hub renews its own
(package renewal); a token that does not expire needs none. The Secret in the remote is the token's anchor: the token
is valid while that exists, so each can be revoked alone.

Every object names its owner, the hub's id and the Cluster, in an annotation. An object of the owner is used as it is,
one of another is never changed. So a command may be interrupted anywhere, and the same command finishes the work. The
Secret in the hub records where the account is, and is deleted last.

Each command first checks the planned objects and permissions, so that an administrator who lacks one leaves nothing
half done, and compares the remote's id with the recorded one, since a context for the wrong cluster is an ordinary
mistake. A new token is tried before the hub gets it, and the old one is revoked when the hub reports the new one.
*/
package enroll
