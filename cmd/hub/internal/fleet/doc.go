// SPDX-License-Identifier: Apache-2.0

/*
Package fleet makes a hub run what its replica has: it stands between package replica, which knows no Cluster, and the
reconciler of Clusters, which knows no shard.

	fleet, err := fleet.New(fleet.Options{Options: replica.Options{Config: config, Namespace: ns, Pod: pod, ...}})
	registry.Options{Gate: fleet.Gate, ...}
	fx.Supply(fx.Annotate(fleet, fx.As(new(cluster.Share))))
	fleet.Attach(remotes, mgr.GetCache(), journal)
	err = fleet.Run(ctx) // until ctx ends, and then until the shards are handed over

A [Fleet] is the replica's Apps and the reconciler's Share. Each call of the Apps changes the role of a shard and triggers
reconciles:

	Warm   RoleWarm     the apps are built and wait; Warm returns when each one waits, or cannot
	Start  RoleRunner   they work, and this hub reports their state
	Drain  RoleNone     they end; Drain returns when none of their writes is in flight

Drain does not wait for the end of the apps, whose hooks may take their time behind the closed gate, nor does it cancel their
writes, which would count until they time out. A silent remote delays the hand-over of its shard by [warmPatience] only.

The shard of what runs once begins and ends a turn (turn.go), and the end waits for code, at most for Options.StopTimeout. Another turn
is that of hub parts beside remotes: it begins with the first shard and ends with the last app.

Gate takes a remote's name and asks about the UID of its last reconcile. A name without a Cluster is [registry.ErrNotFound]. A
Cluster of another replica, or one being handed over, is [registry.ErrElsewhere], so that modules do not take it for one that has
left. One that has missed its deadline is neither. The empty name is for writes without a remote, such as to NATS. By the terms of
Gate the registry reads holds of deletes, and IsAlive says whose holds a live replica takes over. Clusters whose runner has ended
are marked (marks.go).
*/
package fleet
