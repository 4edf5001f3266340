// SPDX-License-Identifier: Apache-2.0

/*
Package shards decides which replica of a hub runs which Clusters, as docs/design/runners.md says; package replica carries it out.
It is pure, so that a model in the tests can run thousands of histories of replicas that freeze, die and lose requests.

  - [Of] is the shard of a Cluster, and [Range] the hashes of a shard.
  - [Assign] distributes the shards over replicas that are live and not drained; the result is a wish and grants
    nothing. [Pins] are labels that the replica of a shard should have.
  - [Machine] is one incarnation of one replica: it records what was read, returns due actions, and its Gate says
    whether the replica may write. Stage says how far the apps shall be.

Each write of an action is a compare-and-swap on its version; after a conflict the caller must read the object and feed the
Machine. rules.go lists the rules of the protocol. For each a test leaves it out and expects the model to find the damage.
*/
package shards
