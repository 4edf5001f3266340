// SPDX-License-Identifier: Apache-2.0

/*
Package registration creates a Cluster for each labelled Secret, for users who register a remote with a Secret alone.

# Usage

In a hub's fx App, next to cluster.Module:

	fx.Supply(registration.Settings{}),
	registration.Module,

The manager must be made with cluster.ManagerOptions. The permissions are those of cluster.Rules,
cluster.CredentialsRules and cluster.EventRules.

# What happens to a labelled Secret

	labelled, no such Cluster          -> create it
	labelled, Cluster made from it     -> follow: labels, the Secret's UID
	labelled, Cluster made otherwise   -> leave it alone and record an event on the Secret
	not labelled (or gone), Cluster    -> record since when, delete the Cluster when
	made from it                          Settings.DeregisterAfter has passed and a live read
	                                      finds no such Secret either

So a Cluster that is deleted while its Secret asks for it is created again: the Secret is the registration. Two
annotations of the Cluster name the Secret from which it was made, and a third one records since when the Secret is
missing, so that a hub that restarts continues where the last process stopped. Renaming is two of these rows: the old
name is no longer wanted, and the new name does not exist.

# Why it is built this way

The controller reconciles pairs of a Secret and the name of a Cluster, because neither of the two identifies what there
is to decide: two Secrets may ask for one Cluster, and a renamed Secret concerns two Clusters. It imports nothing of
package cluster, and package cluster nothing of it: they share Clusters in the API server only.
*/
package registration
