// SPDX-License-Identifier: Apache-2.0

/*
Package enroll connects a remote to the hub, and disconnects it: it creates an account for the hub in the
remote and a Cluster in the hub, rotates the credential, and deletes all of these objects again.

# Objects

	in the remote                          in the hub
	  ServiceAccount clusterfx-NAME          Secret NAME, with token, server and ca.crt
	  ClusterRole, ClusterRoleBinding        Cluster NAME
	  Role, RoleBinding
	  Secret clusterfx-NAME-xxxxx

The ClusterRole grants the permissions that the modules declare and no others. The Role lets the account
request tokens of its own, by which the hub renews its token (package renewal); a token that does not expire
needs no Role. The Secret in the remote is the anchor of the token: the token is valid while the anchor
exists, so that each token can be revoked without the next one. A requested token is bound to the anchor; a
token that does not expire is stored in it.

# Interruptions

Every object carries its owner in an annotation: the hub's id and the name of the Cluster. An existing object
with the expected owner is used as it is, and an object of another owner is never changed. So each command may
be interrupted at any point, and the same command finishes the work: register creates the missing objects,
rotate mints another token and revokes all the others, deregister deletes the remaining objects. The Secret in
the hub is the record of where the account is, and deregister deletes it last.

# Considerations

Each command checks the planned objects and the permissions that they take before it changes anything. An
administrator who lacks one permission would otherwise leave half of the objects behind.

Each command reads the id of the remote and compares it with the id that the hub has recorded. A context that
leads to the wrong cluster is an ordinary mistake, and deleting an account there would be a bad one.

A new token is tried before the hub gets it, and an old token is revoked only when the hub reports that it
uses the new one.
*/
package enroll
