// SPDX-License-Identifier: Apache-2.0

/*
Package pipeline reconciles an object with an ordered list of idempotent steps.

A module author writes the steps (Resource), each of which makes one thing exist or go away. The package
does the rest: the finalizer, the order, canceling, retries, deletion, conditions, metrics.

# Usage

In an App, of the hub or of a remote, with any number of modules that contribute sets of resources:

	fx.Options(
		pipeline.Module(pipeline.Options[*v1.Database]{
			Name:       "databases",
			Conditions: func(d *v1.Database) []metav1.Condition { return d.Status.Conditions },
		}),
		pipeline.AsSet[*v1.Database]("databases", newPostgres), // func(...) (pipeline.Set[*v1.Database], error)
		pipeline.AsSet[*v1.Database]("databases", newMySQL),
	)

Without fx, NewRouter takes the sets, and AddTo adds the controller to a manager; what the controller watches besides
is added in Options.Build. NewReconciler is for a controller of your own, which has Reconciler.Predicate for the events
of the objects. ProcessUpdate and ProcessDelete run a list of resources in a reconciler of your own, and nothing else.

A resource that compares two states is written as a CRUD: it reads what there is, computes what there is to
be, decides on a Patch, and applies it. NewCRUDResource runs these steps one by one, so that they can be
canceled, retried (WithRetry) and measured (WithMetrics) one by one. WithWrapper puts a function of yours around each of
them, as for an audit log, a rate limit or a span.

# What happens to an object

	new ─> finalizer, Ready=Unknown ─> event ─> Init ─> EnsureCreated of each resource ─> conditions
	                                              └ again after each change, error, or Options.Resync
	deleted ─> Init ─> EnsureDeleted of each resource ─> finalizer removed
	             └ again after an error, or if the finalizer is to be kept ─> conditions

Nothing is created before the finalizer is there, so that no deletion is missed, whether the hub is up or
not. An object that is deleted without our finalizer is not ours. An object that no set handles is not ours
either, unless it has our finalizer; then it keeps it, is Stalled, and waits for a set.

An error ends the pass and goes to the controller's queue, which backs off for each object by itself. A
reconcile.TerminalError is not tried again before somebody changes the object. A panic ends the pass, too,
and goes on to whoever recovers: controller-runtime, or a supervised controller, which counts it.

Resources say how the pass goes on with the Flow in their context:

	                       the pass             a deletion      Ready is
	error                  ends                 is run again    False, Failed or a ReasonError's
	CancelReconciliation   ends, no error       is run again    False, Canceled or Deleting
	CancelResource         goes on, the rest    is done, if     False, Canceled
	                       of the resource      nothing else
	                       is left out          is in the way
	KeepFinalizer          goes on              is run again    False, Deleting

What is canceled is canceled for one pass, or one resource in it. The next pass begins with nothing
canceled.

A deletion that keeps the finalizer is run again after 100 ms, and twice as long each time, up to 5 minutes or
Options.Resync; a canceled one after Options.Resync. The log and an event have the reason, also for a kind without
conditions.

After a deletion has succeeded there is none any more, also if the finalizer cannot be removed at once; then
only that is tried again. This is kept in memory: another hub that takes over in that moment deletes once
more, which finds nothing.

# Conditions

With Options.Conditions a pass writes Ready, and besides it Reconciling or Stalled while they are True, all
with observedGeneration, in one request of server-side apply, and only if they changed. The request carries
the resourceVersion of the object that was looked at. Other conditions are not touched; two pipelines on one
kind have an Options.ConditionPrefix each. The status is never read to decide anything. A predicate drops the events of
these writes, so that what a pass reports does not begin another one.

One resource manages, another one reports: what else is to be in the status is written by a resource of its
own, the last in the list.

# Rights

The controller needs get, list, watch and patch on the objects, patch on their status with
Options.Conditions, and create and patch on events of the group events.k8s.io. EnsureCRD needs get and patch
on CustomResourceDefinitions.

# Considerations

When the Cluster of a remote is deleted, a step removes the finalizer from the objects in the remote (Cleanup), since
nobody would do it later. Module adds the step. What the resources have made stays, also for objects that were being
deleted in that moment. A remote that cannot be reached then keeps the finalizers; an event on the Cluster names the
step, and somebody has to remove them by hand. Deselecting a module is no farewell: the finalizers stay.

A resource that changes the object itself, but not the value that it was given, makes the write of the
conditions fail once with a conflict; the next pass makes it good.

# Locking

One object is worked on by one goroutine at a time, which is what the controller's queue guarantees, and
several objects at once (Options.Concurrency). A resource is shared by all of them. The locks
here protect maps: the deletions that succeeded, and the versions of objects that a report has replaced.

# Why it is built this way

It is what operatorkit's framework was, without what that could not be rid of. There, errors were dropped until
the next resync, deletions were missed, or executed twice, or forgotten when no list matched, one object
kept all others waiting, wrapping a resource changed it, and the ways to cancel were channels that nobody
may close twice. Each of these has a test with its number in operatorkit_resource_test.go or operatorkit_reconcile_test.go.

Changes are applied in the order create, delete, update. operatorkit's documentation says create, update,
delete in one place, but this is what it did, and what its users have built upon. Order is a parameter, so that
it can be read where the resource is made. Resources are deleted in the order in which they are created,
for the same reason; Options.ReverseOnDelete turns that around.

Wrappers are functions between a resource and its caller, not changes of it: WithWrapper, WithRetry and WithMetrics
return new resources. They reach into a CRUD because what they wrap is a call, of which a CRUD has seven kinds
and any other resource two.

The finalizer is changed with a patch that carries the resourceVersion. Server-side apply, which would be
shorter, leaves a finalizer that somebody else owns as well, as after a restore from a backup, and creates
an object that has gone in that moment.

A pass that gives an object its finalizer ends there. The change makes the next one begin, with the object
as the API server has it. For controllers with predicates that drop such a change it also asks to be called
again, a second later.

A canceled resource does not keep the finalizer. It is how a resource says that there is nothing it could do
any more, as when the tenant is gone; one that wants to be called again says KeepFinalizer as well.

Sets that are told apart by labels are compared when the router is made; functions cannot be, so an
ambiguity of theirs shows as a condition of the first object that meets it.

CustomResourceDefinitions are not a pipeline's business. EnsureCRD is here because the framework had it, and
deleted a CRD that was not established in time.
*/
package pipeline
