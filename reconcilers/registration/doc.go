// SPDX-License-Identifier: Apache-2.0

/*
Package registration creates a Cluster for each labelled Secret, for users who register a remote with a Secret alone. Add
Module next to cluster.Module, with Settings; the manager must be made with cluster.ManagerOptions. The permissions are those
of cluster.Rules, cluster.CredentialsRules and cluster.EventRules.

	labelled, no such Cluster          -> create it
	labelled, Cluster made from it     -> follow: labels, the Secret's UID
	labelled, Cluster made otherwise   -> leave it alone and record an event on the Secret
	not labelled (or gone), Cluster    -> record since when, delete the Cluster when
	made from it                          Settings.DeregisterAfter has passed and a live read
	                                      finds no such Secret either

A deleted Cluster whose Secret asks for it is created again: the Secret is the registration. Annotations of the Cluster name
its Secret and since when that is missing, so that a restarted hub continues. A request is a pair of a Secret and a Cluster's
name, since two Secrets may ask for one Cluster, and a renamed one concerns two.
*/
package registration
