// SPDX-License-Identifier: Apache-2.0

/*
Package replica shares the Clusters of a hub between several replicas. A [Replica] carries out what a
[shards.Machine] decides, against the API server of the hub; docs/design/runners.md has the protocol. The
package sharing is the owner of the apps; a hub that shares its Clusters with none does without both, and is elected by the
package lease.

# Usage

	r, err := replica.New(replica.Options{Config: config, Namespace: ns, Name: pod, Runner: runner, ...})
	go func() { done <- r.Run(ctx) }()

	epoch, err := r.Gate(cluster.UID) // before each write to a Cluster's remote

The [Runner] is the owner of the apps. Run calls it for one shard after the other: Warm builds the apps of a shard, Start
permits their writes, Drain ends them. Calls for one shard never overlap; calls for different shards do.

# The gate

Gate is open for the Clusters of a shard while the record of the shard has this incarnation, the shard is not drained, and
the last renewal of the Lease began no longer ago than Timing.Deadline. It reads two clocks and no object, so that it can
be called before each write. A write is in flight from before it asks the gate until it has a response or has timed out:
a Runner counts it first and asks the gate then, or Drain could miss it.

# Objects

All objects are in one namespace and have the label clusterfx.dev/sharding, by which they are watched.

  - The ConfigMap clusterfx-sharding is the installation: the number of shards, and whether all records exist. Its mode is in the
    Lease of leader mode, see package mode.
  - The Lease clusterfx-shard-N is the record of shard N, and never expires. The holder is in spec.holderIdentity as
    "name/incarnation", the epoch in spec.leaseTransitions, and the warm replica and the promise are in annotations.
  - The Lease of a replica has the name of the replica and its incarnation in spec.holderIdentity. The earlier incarnation
    that has ended, whether the replica is leaving, and whether an administrator has drained it are in annotations. Each
    renewal changes spec.renewTime, and so the resourceVersion.
  - The ConfigMap clusterfx-assignment has the wish: the name of a replica for each shard, and the assigner, which is the
    replica that writes it. A replica that finds an assigner without a live Lease makes itself the assigner with its first
    assignment. So this costs no request while nothing changes.

[ReadSurvey] and [SetDrained] are for commands of people, which have no Replica.

Each change of a replica is a create, or a merge patch with the resourceVersion that was read: a compare-and-swap that leaves the
labels, annotations and finalizers of others as they are. After a conflict the object is read, and the Machine decides
again. Nothing repeats a write with another version.

# How it runs

Run begins one life after the other, each with an incarnation and a Machine of its own, and a life ends when its Lease is
lost and its apps are drained. A life has a goroutine that renews the Lease, a goroutine for the watches, and a goroutine
that compares the Machine with the world: it asks for due actions, and starts a goroutine for each, at most one for each
object and one for the apps of each shard. An action that fails is repeated after Timing.Retry, if it is still due. The
Machine has one mutex, which is never held during a request or a call of the Runner.

The renewals have a connection of their own, so that no other request delays them, and each request ends after half of
Timing.Deadline, which leaves time for a second renewal. The watches have a connection of their own, too. They deliver the
renewals of this replica, which the Machine ignores, and which show that the watch works: a watch that delivers none for
Timing.Deadline, while renewals succeed, is replaced.

A life begins when Options.Mode permits it, and reads the mode again after the claim, before the gate opens. When the mode
changes, all gates close at once, and the replica drains and releases its shards and gives back its Lease.

An [Observer] finds out without a Lease whether all replicas have ended.

When the context of Run ends, the replica leaves: its Lease says so, the assigner assigns its shards to others, and it hands
them over as they become warm. After Timing.Duration it drains and releases the remaining shards. Then it gives back its
Lease. Options.LeaveTimeout limits all of this.
*/
package replica
