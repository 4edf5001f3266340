// SPDX-License-Identifier: Apache-2.0

/*
Package deletions bounds how many objects the modules of a hub may delete without evidence: a source that looks empty
by mistake (a hub restored from an old backup, a cache read too early, a selector without a match) makes a controller
delete everything that it made, and a client cannot see why.

A Guard is a layer in the transports of modules, so it sees deletes, deletes of collections and evictions of every
client. A Limiter is the same for other deletes, such as of entities in NATS. It passes a request on or returns an error
that wraps ErrHeld, in this order:

  - Dry runs, and Events and Leases, are not counted.
  - A delete with Evidence passes.
  - While an informer of the module has no current objects, its deletes are refused.
  - Otherwise the ledger decides; see the package ledger. A Hold is stored before the delete is refused.

A delete of a collection is first a dry run, limited to the objects that are left, and is refused whole if it would
delete more. A held delete is sent as a dry run, too: a module that does not know that an object is gone would ask
without end. So is a repeated delete by name, for the UID. No other responses are read, but those of deletes by name.

A Store has an entry with all Holds of a target, under the UID of its Cluster, and one of each process with its Holds of
the hub and of the fleet. A process writes only its own entries, whole; what else it finds there, such as a late write,
the next upkeep replaces. With Options.IsAlive several processes use one Store, and targets move between them:

  - A process with a target reads its entry before the first delete of its term, in place of what it knew. One that loses
    a target drops its Holds without a write. With the entry it reads those of other processes, and adds Holds in the place of
    theirs of the hub and fleet: what asked there asks here now.
  - When a process is no longer alive, or stands by, another takes over its Holds of the hub and fleet, with new ids and no
    allowance. One that stands by keeps nothing up to date, and reads its entry again when it is active.
  - Without the target, deletes are refused with the error of Term.

A ConfigMapStore writes entries by merge patches without a version; only a take-over compares it. An entry that cannot be
decoded is an error, because forgetting it would let deletes pass. An operator allows deletes with an annotation of the
ConfigMap or of the Cluster.

Counts do not move: limits begin again with each term, unless a Hold is in force, and those of the hub and fleet are
each process's.
*/
package deletions
