// SPDX-License-Identifier: Apache-2.0

/*
Package shards decides which replica of a hub runs which Clusters. It holds the decisions of the protocol in
docs/design/runners.md. The package replica carries them out.

The package is pure: it starts no goroutine, reads no clock and sends no request, so that a model in the tests can run
thousands of histories of replicas that freeze, die, lose requests and watch with a delay.

  - [Of] is the shard of a Cluster, and [Range] the hashes of a shard.
  - [Assign] distributes the shards over the replicas. The leader calls it for the replicas that are live and not
    drained; the result is a wish and grants nothing. [Pins] are labels that the replica of a shard should have.
  - [Machine] is one incarnation of one replica. It records what the replica reads, returns the actions that are due,
    and its Gate says at each moment whether the replica may write to the Clusters of a shard. Stage says how far the apps
    of a shard shall be.

The caller carries out the actions. Each write of an action is a compare-and-swap on the version in the action, and a
conflict is no error: the caller reads the object again and feeds the Machine.

rules.go lists the rules of the protocol. For each rule a test leaves the rule out and expects the model to find the
damage, which proves that the rule is needed and that the model can see it.
*/
package shards
