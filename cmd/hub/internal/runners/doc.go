// SPDX-License-Identifier: Apache-2.0

/*
Package runners finds the replicas of a hub that share its Clusters, and drains one, for the commands check and drain.

	hub := &runners.Hub{Cluster: cluster, Namespace: namespace}
	list, err := hub.List(ctx)                       // replica.ErrNotSharded if replicas do not share the Clusters
	before, err := hub.SetDrained(ctx, "hub-7f3a", true)
	err = hub.AwaitDrained(ctx, runners.Wait{Name: "hub-7f3a", Timeout: time.Minute})

No replica is contacted, so the list is right when none responds. A Lease is over by this machine's wall clock, which
is good enough for people.
*/
package runners
