// SPDX-License-Identifier: Apache-2.0

/*
Package sharing makes a hub run its share of the Clusters: those of the shards that its replica holds. It stands between the
package replica, which decides about shards and knows no Cluster, and the reconciler of Clusters, which knows no shard.

	fleet, err := sharing.New(sharing.Options{Config: config, Namespace: ns, Replica: pod, ...})
	registry.Options{Gate: fleet.Gate, ...}
	fx.Supply(fx.Annotate(fleet, fx.As(new(cluster.Share))))
	fleet.Attach(remotes, mgr.GetCache(), journal)
	err = fleet.Run(ctx) // until ctx ends, and then until the shards are handed over

# How a Cluster moves

A [Fleet] is the replica's Runner and the reconciler's Share. Each call of the Runner changes the role of a shard and triggers
a reconcile of its Clusters; the reconciler follows the roles as it follows everything else.

	Warm   RoleWarm     the apps are built and wait; Warm returns when each one waits, or cannot
	Start  RoleRunner   they work, and this hub reports their state
	Drain  RoleNone     they end; Drain returns when none of their writes is in flight

Drain does not wait for the end of the apps: the gate of the shard was closed before, and their last hooks may take their
time while another replica works. It does not end them before their writes have a response, either: a canceled write counts
as in flight until it would have timed out, which delays the hand-over.

A remote that does not respond delays the hand-over of its shard for [warmPatience], and no other shard.

# The gate

Gate is called with the name of a remote, and asks the replica about the UID that the last reconcile had for it. A name without
a Cluster is [registry.ErrNotFound]. A Cluster of another replica is [registry.ErrElsewhere], and so is a Cluster that this replica
hands over, from the moment at which Drain ends its app: modules must not take it for a Cluster that has left the hub. A Cluster of
this replica that has missed its deadline is neither. The empty name is that of writes for no
remote, such as those of the connection to NATS: the replica may write while it has a valid Lease.

# Holds of deletes

The epochs of Gate are the terms by which the registry reads the holds of deletes of a Cluster that has moved, and IsAlive says
which replicas have ended, so that a live one takes over their holds of the management cluster and of all Clusters.
*/
package sharing
