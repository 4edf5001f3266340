// SPDX-License-Identifier: Apache-2.0

/*
Package replica shares the Clusters of a hub between replicas. A [Replica] carries out what a [shards.Machine]
decides, against the hub's API server; docs/design/runners.md has the protocol, and package sharing owns the apps.

	r, err := replica.New(replica.Options{Config: config, Namespace: ns, Name: pod, Runner: runner, ...})
	go func() { done <- r.Run(ctx) }()

	epoch, err := r.Gate(cluster.UID) // before each write to a Cluster's remote

Run calls the [Apps] for shards: Warm builds the apps, Start permits their writes, Drain ends them. Calls for one
shard never overlap. Gate is open while the shard's record has this incarnation, it is not drained, and the last
renewal began no longer ago than Timing.Deadline. It reads two clocks and no object. A Runner must count a write as in
flight before it asks the gate, or Drain could miss it.

All objects are in one namespace, with the label clusterfx.dev/sharding.

  - The ConfigMap clusterfx-sharding is the installation: the number of shards, and whether all records exist.
  - The Lease clusterfx-shard-N is the record of shard N, and never expires: the holder as "name/incarnation" in
    spec.holderIdentity, the epoch in spec.leaseTransitions, the warm replica and the promise in annotations.
  - The Lease of a replica has its incarnation in spec.holderIdentity; its ended incarnation, leaving and drained are
    annotations. Each renewal changes spec.renewTime, and so the version.
  - The ConfigMap clusterfx-assignment has the wish, and the assigner that writes it. A replica that finds no live
    assigner becomes it with its first assignment, so this costs no request while nothing changes.

Each change is a create or a merge patch with the version that was read. After a conflict the object is read, and the
Machine decides again.

Run has one life after the other, each with an incarnation and a Machine; it ends when its Lease is lost and its apps are drained.
A life has a goroutine for renewals, one for watches, and one that starts due actions, one at a time for each object and for the
apps of each shard. The Machine's mutex is never held during a request. Renewals and watches have connections of their own;
requests end after half of Timing.Deadline, and a watch that shows no renewal of this replica for that long is replaced. A life
begins when Options.Mode permits it, and reads the mode again after the claim, before the gate opens.

When ctx ends, the replica leaves: others get its shards, which are handed over as they become warm, for
Timing.Duration; then the rest is drained and released, and the Lease given back, within Options.LeaveTimeout. An
[Lookout] finds out from outside whether all replicas have ended; [ReadSurvey] and [SetDrained] are for commands.
*/
package replica
