// SPDX-License-Identifier: Apache-2.0

/*
Package audit corrects the status of Clusters whose runner has ended: the status of a Cluster is the report of its runner, and
a runner that was killed leaves its last report behind.

	auditor := audit.New(audit.Options{Replicas: replica, Clusters: mgr.GetCache(), Client: mgr.GetClient(), ...})
	err := mgr.Add(auditor)

An [Auditor] works in every replica that has a valid Lease. It is level-based: every few seconds it compares the runner that
each Cluster names in status.runner with the Leases, as its replica knows them. Of a pass it keeps the versions of the Clusters
that it has tried to write, and no decision.

# When a Cluster is marked

A Lease is over when it has no incarnation, or was unchanged or missing for the duration of Leases and a margin by the clock of
this replica. A Cluster is marked, if its runner's Lease is over,

  - 12 s later, if a live replica holds its shard: that replica reports the Cluster within 10 s after it has taken the shard;
  - 5 s later, if none does: a shard that can be taken is taken within a second or two.

Both times begin later in a replica that has just got its Lease: when the only replica restarts, its Clusters are not marked, but
taken and reported. With Leases of 10 s, a Cluster whose runner was killed is so marked, or reported by its next runner, within 25 s.

The neighbours of the shard do it: all live replicas but the holder, in the order of [shards.Neighbours], each 2 s after the one
before, so that one of them writes and the others see it. Before it writes, the auditor reads the Lease of the runner from the
API server. A Lease that has changed is not over.

A Cluster stays as it is while it is paused or being deleted, and if it was never reported by a runner.

# The mark

The mark is the condition Ready with the status Unknown and the reason RunnerLost, and no other field. It is applied with the
field manager [FieldManager] and the resourceVersion of the Cluster that was compared: a report that has been written meanwhile
is a conflict, and the Cluster stays as it is. The next report of a runner takes the condition back, because it differs from
what the runner knows.

The field manager is never released. An apply without fields would remove the condition where the auditor is its only owner,
and the API server refuses a Cluster without it.

# The fifth rule

If more than five and more than a fifth of all Clusters are to be marked at once, and no live replica holds their shards, then the trouble is that
of the auditor or of the whole installation. It marks none of them, counts the pass in a metric, and logs the beginning. The alert
about shards without a holder fires then.

Clusters whose shards have a live holder do not count, and are marked at the same time. A crash of one among three replicas is a third of all Clusters, which the
others take within 12 s. They report them or, if they do not, the auditor marks them: Ready must not remain True. The limit of
writes in a pass keeps that from becoming a burst.

# Limits

A replica that has returned under the name of a killed one has a Lease. The Clusters that still name it are those of shards that
are taken and reported again, and are not audited.
*/
package audit
