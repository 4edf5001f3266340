// SPDX-License-Identifier: Apache-2.0

/*
Package guard changes external systems exactly once, however often a reconcile is repeated.

A module author writes providers, each of which makes one condition of an object true in a system that is not
Kubernetes: a tunnel, a DNS zone, a payment. Such a system often hands out a new thing with a new name for
each request, so a request that is repeated makes a second one. The package sees to it that one process at a
time makes a change, and that a change that was interrupted is known under the same ID when it is tried again.

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

Without fx, AddTo adds the controller to a manager. A reconciler of another make has a Host, and asks it for a
Controller when it needs one. Its controller needs Host.Predicate for the events of the objects, without which a Guard
that fails has no backoff, and Host.Sweeper is added to its manager.

A provider does what changes the external system in Controller.Guard:

	err := c.Guard(ctx, "create the tunnel", func(ctx context.Context, a guard.Attempt) (guard.Outcome, error) {
		tunnel, err := cloud.Create(ctx, cloud.IdempotencyKey(a.ID)) // or, if a.Recovering: look for a.ID first
		...
		return guard.Outcome{Status: metav1.ConditionFalse, Reason: "Created"}, nil
	})

# What happens in a Guard

	lock ─> task ─> outcome and unlock, in one write
	 │       │       └ the write fails: the lock stays until it expires, the attempt is open
	 │       ├ error, panic, end of the reconcile: unlock, the attempt is open
	 │       └ the lock is lost: the task's context ends
	 └ ErrLocked, ErrStale, or an error of the API server: the task does not run

The lock is one condition's of one object. With it is written what the task is about to do (Attempt.Intent) and
under which name (Attempt.ID), before it does anything. Meanwhile the condition is Unknown, with the reason Locked.

An attempt is open from the first lock to an outcome that is written, or to a Terminal error of its first run, with
which a task says that the system has refused the change. All Guards of the condition in between, whoever runs them and whatever
for, are runs of the same attempt: they get the same ID, and Recovering is true. So a task that deletes finds
what one that was to create may have left. A system that remembers an ID together with the request, and answers
the second with what it answered the first, needs a key for each operation, such as ID + "/delete".

If the system honours the ID, be it as an idempotency key or as a label that can be looked for, a change is made
once, and none is lost. If it does not, there still are no two tasks at a time, and a task that follows a crash is
told that it does; what became of the request that was on its way nobody can know.

ErrStale takes the place of a conflict on the resourceVersion. It says that what was decided on is not what there is:
the spec, labels, annotations, a deletion, a finalizer that is no longer there, our condition or our lock, or that the
object has gone. What others report in the status meanwhile is no reason, so the Guards of two conditions of one object
do not get in each other's way. Every decision is made
on a live read, and written with its resourceVersion; if that has changed it is made again.

# What happens to an object

	new ─> finalizer ─> Reconcile of one provider for each condition type, in order
	                     └ again after each change, an error, or as the provider says
	deleted ─> Terminate of each, in order ─> finalizer removed ─> Leases deleted
	            └ again after an error, or as the provider says

A provider decides what to do next on Controller.Settled: the reason that its last finished task left. The condition
is for people, and says Locked or Failed at times; Settled is the state that a crash or an error does not
touch. Terminate goes through a Guard unless Settled says that it is done: also where nothing seems to have been made
there may be an open attempt. When all providers are done none of them is called again: if the finalizer cannot be
removed, only that is repeated. Until it has been removed, the Leases say that all is done, to another process, too.

Errors have one of three classes. Retryable ones go to the controller's queue, which backs off for each object by itself.
Terminal ones wait for the object to change, except while it is being deleted: then they are tried again as well. A
Conflict is tried again a second later without a word, as is ErrStale whatever Options.Classify says, and a lock that is
held when it may be free. An object that was deleted in good order while a reconcile still sees it is ErrStale. All
others are
events on the object and its condition's message; the reason is one of the constants of this package, which are what
error codes were in the original.

# Why two tasks never run at once

Locks are not compared with clocks. That is how it works, with two replicas A and B and a TTL of T:

 1. Every write of a lock carries the resourceVersion of what it was decided on, and changes Record.Revision. So
    the API server puts all writes in one order, and none is made without knowing the one before it.
 2. A, which holds the lock, notes by its own clock when it sends each write that extends it. Until two thirds of T
    after it sent the last one that succeeded it takes the lock for its own; then the context of its task ends. An
    answer that comes later than that counts for nothing, including the answer to the first write: then the
    task does not begin.
 3. B, which wants the lock, notes by its own clock when it first saw each revision. When it has seen the same
    revision for T, it takes the lock.
 4. B saw the revision after the API server had it, and A had sent it before. So B's T begins after A's two thirds,
    and ends at least a third of T later, whatever time either believes it is: only how fast the clocks run matters.
    A clock may run faster than the other by nearly one half before the two meet.
 5. A write of A's that was on its way all that time either reaches the API server before B's, then B's fails
    and B begins to wait anew, or after it, then A's fails.

This is what client-go's leader election does, too. The times in a Record are for people. A replica that has just
started has seen nothing yet, so it waits for T at least, and what it has seen is kept in memory only: forgetting it
makes it wait longer, never shorter. A lock of our own process that is left over from a run whose outcome could not be
written needs no waiting; that no other run of this process is under way is known from memory. For this the
holder has a random part, so that a process is never taken for the one before it, or for another in the same Pod.

What no lock can do is to stop a process. A task has a third of T to return after its context has ended; one that
does not look at its context, or a process that is frozen in the middle of a request and comes back, may still do
something. So may a request that is on its way when the process dies. That is what Attempt.ID is for: it is still
the same attempt.

The property is tested in virtual time with hundreds of random histories of two replicas whose clocks differ by
an hour and run at different speed, whose requests are slow, lost, answered late or not at all, and who are killed at
any time; and on real API servers by killing the hub at each single step.

# Where the lock is

In the status of a kind of your own (Options.Locks), the lock and the condition are written with one request of
server-side apply, with a field manager for each condition type. CRDs need the markers that package lock names.

For other kinds the lock is a Lease in Options.LeaseNamespace, one for each object and condition type, which also has
the condition. What the object shows is a copy that is made good by the next reconcile if the hub ends in between.
It costs one live read of the Lease for each condition type and reconcile. The Lease is not in the object's namespace,
because deleting that would delete it first, with the ID of an attempt that Terminate needs.

The Lease is deleted after the finalizer was removed. A process that ends between the two leaves the Lease; a sweep
(Host.Sweep) deletes it. The controller sweeps when it starts and every half an hour: it lists the Leases with the label
guard.clusterfx.dev/host=<name> and deletes those whose object has gone.

# Rights

The controller needs get, list, watch and patch on the objects, patch on their status, create and patch on
events of the group events.k8s.io, and without Options.Locks get, list, create, update and delete on Leases in
Options.LeaseNamespace; without list the sweep fails, and logs so. What providers create is their business.

# Considerations

The status of a kind, or a Lease, is where this package knows from what was done. That is the one exception to the
rule that status is never read to decide; an external system that gives no names leaves no other way. Who deletes
it by hand makes the count of attempts begin anew, with the same IDs.

When the Cluster of a remote is deleted, a step removes the finalizer from the objects in the remote (Cleanup), since
nobody would do it later. Module adds the step. What the providers have made stays. A remote that cannot be reached
then keeps the finalizers; an event on the Cluster names the step, and somebody has to remove them by hand.
Deselecting a module is no farewell: the finalizers stay.

An object that no factory handles any more keeps its finalizer, too, as does one with a condition that something was
done for and no factory handles. An event says so. Its module has gone or has changed its mind, and what it has made
would be forgotten.

Secrets belong into Secrets (Controller.Create), never into a condition, a status, an intent or an error.

# Locking

A Controller is for one goroutine. A Host is for many: its locks each protect a map or a list, and are held for
operations in memory only.

# Why it is built this way

It is what the ProviderController of the sequencer project was, without what that could not be rid of. There, the
condition itself was the lock, without a holder: a crash in a task locked it for good. Each of its flaws has a
test with its number in flaws_test.go and reconciler_test.go.

The chain owns a finalizer, so that no provider can forget to have one, or remove it before the others are done.
RemoveFinalizer within a task waits for the outcome for the same reason.

A failed task writes its condition with each try. The watch would bring the object back at once, and no backoff
would ever be seen; a predicate (Host.Predicate) drops these events. What a provider has to be woken up for it asks for with
RequeueAfter, or adds a watch for in Options.Build. A provider that has settled a step and returns an empty result is
called again, as the watch would have done it.

An outcome has no meaning together with an error, since "return outcome, c.UpdateStatus(...)" is how tasks end.

A changed status is a merge patch of the differences with the resourceVersion, rather than server-side apply: mutate is
a function, and what it leaves alone is not to be owned. Finalizers are patched for the reason that package
pipeline gives.
*/
package guard
