// SPDX-License-Identifier: Apache-2.0

/*
Package audit corrects the status of Clusters whose runner has ended: a killed runner leaves its last report behind.

An [Auditor] works in every replica with a valid Lease. Every few seconds it compares each Cluster's status.runner
with the Leases; it keeps no decision. A Lease is over when it has no incarnation, or was unchanged or missing for the
duration and a margin by the clock here. Then a Cluster is marked

  - 12 s later, if a live replica holds its shard, which reports it within 10 s after taking the shard;
  - 5 s later, if none does: a shard that can be taken is taken within a second or two.

Both begin later in a replica that has just got its Lease, so that a restart of the only replica marks nothing. With
Leases of 10 s, a Cluster is marked or reported within 25 s of the kill. The live neighbours of the shard mark in the
order of [shards.Neighbours], 2 s apart, after reading the Lease from the API server. Clusters that are paused, being
deleted or never reported stay as they are.

The mark is the condition Ready, Unknown with the reason RunnerLost, and no other field, applied with [FieldManager]
and the resourceVersion that was compared: a report meanwhile is a conflict. The next report takes it back. The field
manager is never released, since an apply without fields would remove the condition.

If more than five and more than a fifth of all Clusters would be marked, and no live replica holds their shards, the
auditor or the installation is in trouble: none is marked, the pass counts in a metric, and the alert about shards
without a holder fires. Clusters whose shards have a live holder do not count: one of three replicas is a third of
all, and Ready must not remain True. Writes in a pass are limited.
*/
package audit
