// SPDX-License-Identifier: Apache-2.0

/*
Package replica shares the Clusters of a hub between replicas. A [Replica] carries out what a [shards.Machine] decides, against the
hub's API server; docs/design/replicas.md has the protocol and its objects. The [Apps] are the caller's.

	r, err := replica.New(replica.Options{Config: config, Namespace: ns, Pod: pod, Runner: apps, ...})
	go func() { done <- r.Run(ctx) }()

	term, err := r.Gate(cluster.UID) // before each write to a Cluster's remote
	term, err = r.GateOnce()         // before each write of what runs once
	err = r.Check()                  // before other writes to the management cluster

Run calls the Apps for shards: Warm builds them, Start permits their writes, Drain ends them. Calls for one shard never overlap. A
gate reads two clocks and no object. Apps must count a write as in flight before they ask the gate, or Drain could miss it.

Run has one life after the other, each with an incarnation, a Lease and a Machine; a life ends when its Lease is lost and its apps are
drained. It has a goroutine for renewals, one for watches, and one that starts due actions, one at a time for each object and for
the apps of each shard. The Machine's mutex is never held during a request. Renewals and watches have connections of their own;
requests end after half of Timing.Deadline, and a watch that shows no renewal of this replica for Timing.Deadline is replaced.

When ctx ends, the replica leaves, within Options.LeaveTimeout. [ReadSurvey] and [Drain] are for commands.
*/
package replica
