// SPDX-License-Identifier: Apache-2.0

/*
Package pipeline reconciles an object with an ordered list of idempotent steps.

A module author writes the steps (Resource), each of which creates or deletes one thing. The package adds the
finalizer, the order, cancellation, retries, deletion, conditions and metrics.

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

Without fx, NewRouter takes the sets, and AddTo adds the controller to a manager; Options.Build adds further watches.
NewReconciler is for a controller of your own, which needs Reconciler.Predicate for the events of the objects.
ProcessUpdate and ProcessDelete only run a list of resources in a reconciler of your own.

A resource that compares two states is written as a CRUD: it reads the current state, computes the desired state,
decides on a Patch, and applies it. NewCRUDResource runs these steps separately, so that each can be canceled, retried
(WithRetry) and measured (WithMetrics). WithWrapper calls each step through a function of yours, for example for an
audit log, a rate limit or a span.

# The life of an object

	new ─> finalizer, Ready=Unknown ─> event ─> Init ─> EnsureCreated of each resource ─> conditions
	                                              └ again after each change, error, or Options.Resync
	deleted ─> Init ─> EnsureDeleted of each resource ─> finalizer removed
	             └ again after an error, or if the finalizer is to be kept ─> conditions

Nothing is created before the finalizer is there, so that no deletion is missed, whether the hub is up or not. The
pipeline ignores an object that is deleted without its finalizer. It also ignores an object that no set handles,
unless the object has the finalizer; then the object keeps the finalizer, is Stalled, and waits for a set.

An error ends the pass and goes to the controller's queue, which has a separate backoff for each object. After a
reconcile.TerminalError the pass is not repeated until the object changes. A panic ends the pass, too, and propagates
to controller-runtime, or to a supervised controller, which counts it.

Resources control the pass with the Flow in their context:

	                       the pass             a deletion      Ready is
	error                  ends                 is run again    False, Failed or a ReasonError's
	CancelReconciliation   ends, no error       is run again    False, Canceled or Deleting
	CancelResource         continues; the       is done, if     False, Canceled
	                       rest of the resource nothing else
	                       is skipped           prevents it
	KeepFinalizer          continues            is run again    False, Deleting

A cancellation is valid for one pass, or for one resource in it. The next pass begins without cancellations.

A deletion that keeps the finalizer is run again after 100 ms, and after twice the time with each further try, up to 5
minutes or Options.Resync; a canceled deletion is run again after Options.Resync. The log and an event contain the
reason, also for a kind without conditions.

A successful deletion is not repeated, also if the finalizer cannot be removed at once; then only the removal is
retried. This is kept in memory: a hub that takes over at that moment repeats the deletion, which finds nothing to
delete.

# Conditions

With Options.Conditions a pass writes Ready, and also Reconciling or Stalled while they are True, all with
observedGeneration, in one request of server-side apply, and only if they changed. The request carries the
resourceVersion of the object that the pass has read. Other conditions do not change; two pipelines for one kind need
an Options.ConditionPrefix each. The pipeline never reads the status to decide. A predicate drops the events of these
writes, so that the report of a pass does not begin another pass.

Managing and reporting are separate: for other fields of the status write a separate resource, the last in the list.

# Permissions

The controller needs get, list, watch and patch on the objects, patch on their status with
Options.Conditions, and create and patch on events of the group events.k8s.io. EnsureCRD needs get and patch
on CustomResourceDefinitions.

# Considerations

When the Cluster of a remote is deleted, a step removes the finalizer from the objects in the remote (Cleanup), since
no controller would remove it later. Module adds the step. The objects that the resources have created stay, also if
their owners were being deleted at that moment. If the remote cannot be reached, the finalizers stay; an event on the
Cluster names the step, and an administrator has to remove the finalizers by hand. Deselecting a module does not run
the step: the finalizers stay.

If a resource changes the object in the API server, but not the Go value that the pass has given to it, the write of
the conditions fails once with a conflict; the next pass writes them.

# Locking

One goroutine at a time reconciles an object, which the controller's queue guarantees; several objects are reconciled
at once (Options.Concurrency). All these goroutines share the resources. The locks in this package protect maps: the
deletions that succeeded, and the versions of objects that a report has replaced.

# Why it is built this way

The package is the successor of operatorkit's framework, without its flaws. There, errors were dropped until the next
resync, deletions were missed, or executed twice, or forgotten when no list matched, one object kept all others
waiting, wrapping a resource changed it, and cancellation used channels, which must not be closed twice. Each of these
flaws has a test with its number in operatorkit_resource_test.go or operatorkit_reconcile_test.go.

Changes are applied in the order create, delete, update. operatorkit's documentation says create, update, delete in
one place, but its code used this order, and its users depend on it. Order is a parameter, so that the call that
creates the resource shows it. Resources are deleted in the order in which they are created, for the same reason;
Options.ReverseOnDelete reverses that order.

Wrappers are functions between a resource and its caller, not changes of it: WithWrapper, WithRetry and WithMetrics
return new resources. They reach into a CRUD because they wrap calls: a CRUD has seven kinds of calls, and any other
resource has two.

The finalizer is changed with a patch that carries the resourceVersion. Server-side apply would be shorter, but it
keeps a finalizer that another field manager owns as well, as after a restore from a backup, and it creates an object
that has just been deleted.

A pass that adds the finalizer to an object ends after that. The event of the change begins the next pass, with the
object from the API server. For controllers with predicates that drop such an event the pass also requests a reconcile
a second later.

A canceled resource does not keep the finalizer. With a cancellation a resource reports that it cannot do anything,
for example because the tenant is gone; a resource that needs another call uses KeepFinalizer as well.

NewRouter compares sets that select objects by labels. It cannot compare functions, so an ambiguity between functions
shows as a condition of the first object that several of them handle.

A pipeline does not manage CustomResourceDefinitions. EnsureCRD is here because operatorkit's framework had such a
function, which deleted a CRD that was not established in time.
*/
package pipeline
