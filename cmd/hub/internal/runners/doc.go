// SPDX-License-Identifier: Apache-2.0

/*
Package runners lists the replicas of a hub that share its Clusters, and drains one of them. It is for the commands get runners
and drain.

# Usage

	hub := &runners.Hub{Cluster: cluster, Namespace: namespace}
	list, err := hub.List(ctx)                       // replica.ErrNotSharded in a hub whose replicas do not share its Clusters
	before, err := hub.SetDrained(ctx, "hub-7f3a", true)
	err = hub.AwaitDrained(ctx, runners.Wait{Name: "hub-7f3a", Timeout: time.Minute})

# Considerations

Everything comes from the objects of the installation, which the package replica reads: no replica is contacted, so that the
list is right when replicas do not respond. A Lease is over by the wall clock of this machine, which is good enough for people.
A replica decides by its own clock only; see docs/design/runners.md.

The number of Clusters of a replica is that of its shards, by their UIDs. A status.runner is a report of the past, and is not
used.
*/
package runners
