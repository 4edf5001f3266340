// SPDX-License-Identifier: Apache-2.0

/*
Package guard changes external systems exactly once, however often a reconcile is repeated.

A provider makes one condition of an object true in a system outside of Kubernetes, such as a payment, which often creates
a second resource for a repeated request. So one process at a time makes a change, in a task within Controller.Guard, and
an interrupted change keeps its ID:

	lock ─> task ─> outcome and unlock, in one write
	 │       │       └ the write fails: the lock stays until it expires, the attempt is open
	 │       ├ error, panic, end of the reconcile: unlock, the attempt is open
	 │       └ the lock is lost: the task's context ends
	 └ ErrLocked, ErrStale, or an error of the API server: the task does not run

An attempt is open from the first lock until an outcome is written, or its first run returns a Terminal error. All Guards
in between, of any process and purpose, get the same Attempt.ID, with Recovering set: so a task that deletes finds what an
interrupted task has created. A system that repeats its first response needs a key for each operation, such as
ID + "/delete". If the system honours the ID, a change is made exactly once; otherwise there still are no two tasks at a time.

Decide the next step by Controller.Settled, which crashes and errors do not change. Terminate must go through a Guard unless
Settled shows that the work is done: there may be an open attempt. This is the one status that decides; its
deletion restarts the count, with the same IDs.

# Why two tasks never run at once

No process compares a lock with a clock. Replica A holds the lock, B wants it, T is the TTL:

 1. Each write of a lock carries the resourceVersion that it was decided on, and changes Record.Revision. So the API server
    orders all writes: of two that compete, one fails.
 2. A relies on the lock until two thirds of T after it sent the last successful write, then ends the task's context.
 3. B takes the lock when it has seen the same revision for T. It saw it after A sent it, so its T ends at least a third of T
    after A's two thirds. Only the speed of clocks matters: one may run faster by nearly one half.

A task that ignores its context, or a frozen process, may still send requests: the ID is for that.

# Where the lock is

With Options.Locks the lock is in the status, applied with the condition; the CRD needs the markers that package lock names.
Otherwise a Lease in Options.LeaseNamespace has both, and costs a live read for each condition and reconcile. Host.Sweep
deletes the Leases that a crash leaves.

The controller needs get, list, watch and patch on the objects, patch on their status, create and patch on events of
events.k8s.io, and without Options.Locks get, list, create, update and delete on Leases.

An administrator must remove the finalizer, as an event says, if no factory is left for a condition that a provider worked
on, or the remote cannot be reached when its Cluster is deleted.
*/
package guard
