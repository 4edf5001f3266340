// SPDX-License-Identifier: Apache-2.0

/*
Package enroll brings a remote and the hub together, and apart: it makes an account for the hub in the
remote and a Cluster in the hub, renews the credential, and undoes all of it.

# What is made

	in the remote                          in the hub
	  ServiceAccount clusterfx-NAME          Secret NAME, with token, server and ca.crt
	  ClusterRole, ClusterRoleBinding        Cluster NAME
	  Role, RoleBinding
	  Secret clusterfx-NAME-xxxxx

The ClusterRole has the rights that the modules declare and no others. The Role lets the account ask for
tokens of its own, by which the hub renews the one that it has (package renewal); a token without an end
needs none. The Secret in the remote is the anchor of
the token: the token is valid while the anchor exists, so that one token can be revoked and the next one
not. A token that was asked for is bound to it; a token without an end is in it.

# Interruptions

Everything carries the owner in an annotation: the hub's id and the name of the Cluster. What is there and
has the right owner is taken as it is, what has another one is never touched. So each command may be cut
off anywhere, and the same command finishes the work: register makes what is missing, rotate mints once
more and revokes every other token, deregister deletes what is left. The Secret in the hub is the record
of where the account is, and deregister deletes it last.

# Considerations

What is about to be made and the rights that it takes are looked at before anything is changed. An
administrator who lacks one right would otherwise leave half of it behind.

Each command asks the remote which cluster it is, and compares that with what the hub has recorded. A
context that leads to the wrong cluster is an ordinary mistake, and deleting an account there would be a
bad one.

A new token is tried before the hub gets it, and an old one is revoked only when the hub reports that it
uses the new one.
*/
package enroll
