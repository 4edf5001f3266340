// SPDX-License-Identifier: Apache-2.0

/*
Package shards decides which replica of a hub runs which Clusters, as docs/design/replicas.md says; package replica carries it out.
It is pure, so that a model in the tests can run thousands of histories of replicas that freeze, die and lose requests.

  - [Of] is the shard of a Cluster. Shard [Once] has no Cluster: it is what runs once.
  - [Assign] chooses the active replicas, and gives each shard to one of them. The result is a wish and grants nothing.
  - [Machine] is one incarnation of one replica: it records what was read, returns due actions, and its Gate says
    whether the replica may write. Stage says how far the apps of a shard shall be.

Each write of an action is a compare-and-swap on its version; after a conflict the caller must read the object and feed the
Machine. rules.go lists the rules of the protocol. For each a test leaves it out and expects the model to find the damage.
*/
package shards
