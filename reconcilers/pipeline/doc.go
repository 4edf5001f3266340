// SPDX-License-Identifier: Apache-2.0

/*
Package pipeline reconciles an object with an ordered list of idempotent steps. A module author writes the steps (Resource),
each of which creates or deletes one thing. The package adds the finalizer, order, cancellation, retries, deletion,
conditions and metrics.

Module and AsSet add a pipeline and its sets of resources to an App; AddTo adds one to a manager; NewReconciler and
ProcessUpdate are for a controller of your own. A resource that compares two states is a CRUD: NewCRUDResource runs its
steps separately, so that each can be canceled, retried (WithRetry), measured (WithMetrics) and wrapped (WithWrapper).

# The life of an object

	new ─> finalizer, Ready=Unknown ─> event ─> Init ─> EnsureCreated of each resource ─> conditions
	                                              └ again after each change, error, or Options.Resync
	deleted ─> Init ─> EnsureDeleted of each resource ─> finalizer removed
	             └ again after an error, or if the finalizer is to be kept ─> conditions

Nothing is created before the finalizer is there, so that no deletion is missed. Objects without a set, or deleted without
the finalizer, are ignored; one with the finalizer and no set keeps it, and is Stalled. After a reconcile.TerminalError a
pass is not repeated until the object changes. A panic propagates. A successful deletion is not repeated in this process,
only the removal of the finalizer; the next hub repeats it and finds nothing.

Resources control a pass with the Flow in their context:

	                       the pass             a deletion      Ready is
	error                  ends                 is run again    False, Failed or a ReasonError's
	CancelReconciliation   ends, no error       is run again    False, Canceled or Deleting
	CancelResource         continues; the       is done, if     False, Canceled
	                       rest of the resource nothing else
	                       is skipped           prevents it
	KeepFinalizer          continues            is run again    False, Deleting

The next pass begins without cancellations. CancelResource keeps no finalizer, since it says that nothing can be done, as
for a tenant that is gone.

# Conditions and permissions

With Options.Conditions a pass applies Ready, and Reconciling or Stalled while True, if they differ, with the
resourceVersion that it has read. Others stay; two pipelines for one kind must each have an Options.ConditionPrefix. The
status never decides. Write other fields of the status in a last resource.

The controller needs get, list, watch and patch on the objects, patch on their status with Options.Conditions, and create and
patch on events of events.k8s.io. EnsureCRD needs get and patch on CustomResourceDefinitions.

# When a remote leaves

Cleanup removes the finalizers when a Cluster is deleted. What resources created stays. If the remote cannot be reached, an
event on the Cluster names the step, and an administrator must remove the finalizers. Deselecting a module does not run the
step.

# Why it is built this way

It succeeds operatorkit's framework, on whose orders of changes (create, delete, update) and of deletion users depend, so
both are options. Finalizers are patched with the resourceVersion:
server-side apply keeps one that another manager owns, and creates an object that has just been deleted.
*/
package pipeline
