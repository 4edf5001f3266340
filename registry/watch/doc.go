// SPDX-License-Identifier: Apache-2.0

/*
Package watch lets controllers on the hub react to objects in its remotes.

A module's own controllers run in the app of each remote and see that remote only. A controller on the hub sees all
remotes: it aggregates their objects, or distributes objects to them. With this package it gets a Request, which has a
remote and an object's name, whenever such an object changes, and reaches the object with registry.WithClient:

	watch.ControllerManagedBy(mgr, remotes).
		Named("pods").
		WatchesRemote(&corev1.Pod{}, watch.Options[client.Object]{Select: state.MatchLabels(edge)}).
		Complete(r)

	func (r *pods) Reconcile(ctx context.Context, request watch.Request) (ctrl.Result, error) {
		return ctrl.Result{}, r.remotes.WithClient(ctx, request.Cluster,
			func(ctx context.Context, remote client.Client) error { ... })
	}

ControllerManagedBy is a builder in the manner of controller-runtime's. Below it there are a source
(Remotes) and a queue (NewQueue), which any controller with Request as its type can use.

# Guarantees

No remote can hurt the controller. The source watches each remote in a separate goroutine, on the cache of the remote's
app, so that the objects are in memory once; the controller starts without waiting for remotes, and a silent, slow or
forbidden remote does not delay the others. multicluster-runtime blocks and ends the process in this case: it calls
Engage for one cluster after the other, and waits for each.

Nothing is lost. A remote that is Ready again, with a new app and a new cache, makes requests for all of its objects,
and for objects that were deleted meanwhile, whose deletion no event reports. Requests for a remote that is not Ready
are kept until it is Ready, and the reconciler never sees them before that (Builder.Build); they are dropped when the
remote has left the hub. Events cause a reconcile, but have no content: a reconciler reads the current state.

Remotes are served in turn. The queue has a lane for each remote and takes from one after the other, in each the highest
priority first, then the oldest. With one queue for all, a remote with a hundred thousand events would delay the others
until its events are processed. Requests of OwnsRemote belong to the hub, regardless of the remote that caused them, and
share one lane. Requests from a first list or a resync have a low priority, as everywhere in controller-runtime.

# Costs

For each remote a goroutine and a handler at the informer, and for each object the requests that it made, to find
deleted objects after an outage: about 150 bytes. A kind without an informer in the remote's app gets an informer, with
all of its objects in the hub's memory; watch a metav1.PartialObjectMetadata if the metadata are enough.
*/
package watch
