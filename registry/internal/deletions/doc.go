// SPDX-License-Identifier: Apache-2.0

/*
Package deletions bounds how many objects the modules of a hub may delete without evidence.

A source that looks empty by mistake makes a controller delete everything that it made: the hub was restored from an old
backup, a cache was read too early, a selector lost its match. A client cannot see what a delete was decided from. So the
package promises a bound to every module, and evidence to the modules that have it.

A Guard is a layer in the transports of the modules, so that it sees every request whatever client sends it: deletes,
deletes of collections and evictions. It passes the request on, or returns an error that wraps ErrHeld, in this order:

  - Dry runs, and Events and Leases, are not counted.
  - A delete with Evidence passes.
  - While an informer of the module has no current objects, its deletes are refused: the module does not see its sources.
  - Otherwise the ledger decides; see the package ledger. A Hold is stored before the delete is refused.

A delete of a collection is first sent as a dry run that is limited to the number of objects that are left, and is refused
whole if it would delete more.

A delete that is held is sent as a dry run, and the module gets the response if the API server refuses it: a module that
does not know that an object is gone would ask for its delete without end, and its hold would never end.

A delete by name that repeats one of an object which may still be there is sent as a dry run, too: that tells the UID of the object.
The Guard reads no response except those of its own dry runs and of deletes by name.

# Processes that share the targets

With Options.IsAlive, several processes use one Store, and targets move between them.

  - A Hold of a target belongs to the process that has the target. Term numbers the visits of a target in a process: before the
    first delete of a visit is decided, the Guard reads the Holds of the target from the Store. Deletes at the same time share
    one read, and the upkeep reads them without a delete. What the process knows of the Holds of an earlier visit has no effect.
  - A Hold of the hub or of the fleet belongs to the process whose limit was exceeded; the Hold has its name. When that process
    is no longer alive, one of the others takes the Hold over, with a new id and without what was allowed.
  - A process writes and removes only the entries that belong to it. A write that was on its way when the target moved may arrive
    late; the next upkeep of the process that has the target repairs it. A process that loses a target drops its Holds without a
    write.
  - Without the target, deletes are refused with the error of Term.

Counts do not move: the limit of a target begins again with each visit in a new process, unless a Hold is in force, and the
limits of the hub and of the fleet are those of each process. The entry of a target that no process has stays in the Store.
*/
package deletions
