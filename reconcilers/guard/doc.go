// SPDX-License-Identifier: Apache-2.0

/*
Package guard changes external systems exactly once, however often a reconcile is repeated.

A module author writes providers, each of which makes one condition of an object true in a system that is not
Kubernetes: a tunnel, a DNS zone, a payment. Such a system often creates a new resource with a new name for each
request, so a repeated request creates a second resource. The package guarantees that one process at a time makes a
change, and that an interrupted change keeps its ID when it is tried again.

# Usage

In an App, of the hub or of a remote, with any number of modules that contribute providers:

	fx.Options(
		guard.Module(guard.Options[*v1.Tunnel]{
			Name:       "tunnels",
			Conditions: func(t *v1.Tunnel) *[]metav1.Condition { return &t.Status.Conditions },
			Locks:      func(t *v1.Tunnel) *[]lock.Record { return &t.Status.Locks },
		}),
		guard.AsFactory[*v1.Tunnel]("tunnels", newCloudflare), // func(...) (guard.Factory[*v1.Tunnel], error)
	)

Without fx, AddTo adds the controller to a manager. A reconciler of your own has a Host, and gets a Controller from it
for each condition. Its controller needs Host.Predicate for the events of the objects, without which a Guard that fails
has no backoff, and its manager needs Host.Sweeper.

A provider changes the external system within Controller.Guard:

	err := c.Guard(ctx, "create the tunnel", func(ctx context.Context, a guard.Attempt) (guard.Outcome, error) {
		tunnel, err := cloud.Create(ctx, cloud.IdempotencyKey(a.ID)) // or, if a.Recovering: look for a.ID first
		...
		return guard.Outcome{Status: metav1.ConditionFalse, Reason: "Created"}, nil
	})

# The steps of a Guard

	lock ─> task ─> outcome and unlock, in one write
	 │       │       └ the write fails: the lock stays until it expires, the attempt is open
	 │       ├ error, panic, end of the reconcile: unlock, the attempt is open
	 │       └ the lock is lost: the task's context ends
	 └ ErrLocked, ErrStale, or an error of the API server: the task does not run

There is one lock for each condition of an object. The write that takes the lock also records the purpose of the task
(Attempt.Intent) and its ID (Attempt.ID), before the task does anything. While the task runs, the condition is Unknown,
with the reason Locked.

An attempt is open from the first lock until an outcome is written, or until its first run returns a Terminal error,
with which a task reports that the system has refused the change. In between, all Guards of the condition are runs of
the same attempt, whichever process runs them and for whatever purpose: they get the same ID, and Recovering is true. So
a task that deletes finds the resources that an interrupted task may have created. If a system remembers an ID together
with the request, and repeats its first response for the second request, use a key for each operation, such as
ID + "/delete".

If the system honours the ID, as an idempotency key or as a label that can be searched for, a change is made exactly
once, and no change is lost. If it does not, there still are no two tasks at a time, and a task that follows a crash
knows that it does; it cannot know the result of the interrupted request.

ErrStale replaces a conflict on the resourceVersion. It reports that the decision was made on an outdated object: the
spec, the labels, the annotations, the deletion, a finalizer that has been removed, our condition or our lock has changed,
or the object has been deleted. Changes of the status by other writers do not count, so the Guards of two conditions of
one object do not disturb each other. Every decision is made on a live read, and written with the resourceVersion of that
read; if the resourceVersion has changed, the decision is made again.

# The life of an object

	new ─> finalizer ─> Reconcile of one provider for each condition type, in order
	                     └ again after each change, an error, or as the provider says
	deleted ─> Terminate of each, in order ─> finalizer removed ─> Leases deleted
	            └ again after an error, or as the provider says

A provider decides on the next step from Controller.Settled: the reason that its last finished task left. The condition
is for people, and is Locked or Failed at times; Settled is the state that a crash or an error does not change. Terminate
goes through a Guard unless Settled shows that the work is done: even where no resource seems to exist there may be an
open attempt. When all providers are done, none of them is called again: if the finalizer cannot be removed, only the
removal is repeated. Until the finalizer has been removed, the Leases record for all processes that the work is done.

Errors have one of three classes. Retryable errors go to the controller's queue, which has a separate backoff for each
object. After a Terminal error the object is not reconciled until it changes, except during its deletion: then the error
is retried as well. A Conflict is retried a second later, without an event; so are ErrStale, whatever Options.Classify
returns, and a held lock when it may be free. A reconcile that still sees an object after its deletion gets ErrStale. All
other errors become events on the object and the message of its condition; the reason is one of the constants of this
package, which correspond to the error codes of the original.

# Why two tasks never run at once

No process compares a lock with a clock. This is how it works, with two replicas A and B and a TTL of T:

 1. Every write of a lock carries the resourceVersion of the object or Lease on which the decision was made, and changes
    Record.Revision. So the API server puts all writes in one order, and each writer knows the write before its own.
 2. A, which holds the lock, notes by its own clock when it sends each write that extends the lock. It relies on the lock
    until two thirds of T after it sent the last successful write; then it cancels the context of its task. A response
    that arrives later does not count, including the response to the first write: then the task does not begin.
 3. B, which wants the lock, notes by its own clock when it first saw each revision. When it has seen the same revision
    for T, it takes the lock.
 4. B saw the revision after the API server had it, and A had sent it before. So B's T begins after A's two thirds, and
    ends at least a third of T later, whatever the clocks show: only the speed of the clocks matters. One clock may run
    faster than the other by nearly one half before the two periods overlap.
 5. A write by A that is delayed for all that time either reaches the API server before B's write, then B's write fails
    and B waits again, or after it, then A's write fails.

This is also how client-go's leader election works. The times in a Record are for people. A replica that has just
started has no observations yet, so it waits for at least T. Observations are kept in memory only: losing them makes a
replica wait longer, never shorter. A process does not wait for its own lock that a run left behind because its outcome
could not be written; the process knows from memory that it has no other run of this lock. For this reason the holder has
a random part, so that a process is never confused with its predecessor, or with another process in the same Pod.

No lock can stop a process. A task has a third of T to return after its context has ended; a task that ignores its
context, or a process that is frozen in the middle of a request and resumes, may still send requests. A request that is
in flight when the process dies may still take effect. Attempt.ID exists for these cases: the next run belongs to the
same attempt.

The property is tested in virtual time with hundreds of random histories of two replicas whose clocks differ by an hour
and run at different speeds, whose requests are slow, lost, or get a late response or none, and which are killed at any
time; and on real API servers by killing the hub at each single step.

# Where the lock is

For a kind of your own (Options.Locks) the lock is in the status: the lock and the condition are written in one request
of server-side apply, with a field manager for each condition type. CRDs need the markers that package lock names.

For other kinds the lock is a Lease in Options.LeaseNamespace, one for each object and condition type, which also holds
the condition. The condition in the object is a copy, which the next reconcile restores if the hub ends between the two
writes. This costs one live read of the Lease for each condition type and reconcile. The Lease is not in the object's
namespace, because the deletion of the namespace would delete the Lease first, with the ID of an attempt that Terminate
needs.

The Lease is deleted after the finalizer. A process that ends between the two leaves the Lease; a sweep (Host.Sweep)
deletes it. The controller sweeps when it starts and every half an hour: it lists the Leases with the label
guard.clusterfx.dev/host=<name> and deletes the Leases of deleted objects.

# Permissions

The controller needs get, list, watch and patch on the objects, patch on their status, create and patch on events of the
group events.k8s.io, and without Options.Locks get, list, create, update and delete on Leases in Options.LeaseNamespace;
without list each sweep fails and logs an error. The objects that providers create need permissions of their own.

# Considerations

The status of a kind, or a Lease, is the only record of the work that was done. This is the one exception to the rule
that status is never read to decide; an external system that does not name its resources leaves no other way. If the
record is deleted by hand, the count of attempts begins again, with the same IDs.

When the Cluster of a remote is deleted, a step removes the finalizer from the objects in the remote (Cleanup), since no
controller would remove it later. Module adds the step. The resources that providers have created stay. If the remote
cannot be reached, the finalizers stay; an event on the Cluster names the step, and an administrator has to remove the
finalizers by hand. Deselecting a module does not run the step: the finalizers stay.

An object keeps its finalizer, too, if no factory handles it, or if a provider has worked on one of its conditions and no
factory handles that condition. An event reports it. The factory's module has been removed, or its Handles function has
changed, and without the finalizer the resources in the external system would be forgotten.

Secrets belong into Secrets (Controller.Create), never into a condition, a status, an intent or an error.

# Locking

A Controller is for one goroutine. A Host is for many: its locks each protect a map or a list, and are held for
operations in memory only.

# Why it is built this way

The package is the successor of the ProviderController of the sequencer project, without its flaws. There, the condition
itself was the lock, without a holder: a crash in a task locked the condition forever. Each of these flaws has a test
with its number in providercontroller_test.go and reconciler_test.go.

The reconciler owns a finalizer, so that no provider can forget to add one, or remove it before the other providers are
done. RemoveFinalizer within a task waits for the outcome for the same reason.

A failed task writes its condition with each try. The watch event of that write would reconcile the object at once, and
the backoff would have no effect; a predicate (Host.Predicate) drops these events. A provider that waits for an event
requests it with RequeueAfter, or with a watch in Options.Build. A provider that has settled a step and returns an empty
result is called again, as the dropped event would have done.

An outcome has no meaning together with an error, since "return outcome, c.UpdateStatus(...)" is how tasks end.

A changed status is a merge patch of the differences with the resourceVersion, rather than server-side apply: mutate is a
function, and the controller must not own the fields that mutate does not change. Finalizers are patched for the reason
that package pipeline gives.
*/
package guard
