// SPDX-License-Identifier: Apache-2.0

/*
Package watch lets controllers on the hub react to objects in its remotes.

A module's own controllers run in the app of each remote and see that one alone. A controller on the hub
sees all of them: it is what brings things together, or decides where they go. With this package it gets
a Request, which is a remote and an object's name, whenever such an object changes, and reaches the
object with registry.WithClient:

	watch.ControllerManagedBy(mgr, remotes).
		Named("pods").
		WatchesRemote(&corev1.Pod{}, watch.Options[client.Object]{Select: registry.MatchLabels(edge)}).
		Complete(r)

	func (r *pods) Reconcile(ctx context.Context, request watch.Request) (ctrl.Result, error) {
		return ctrl.Result{}, r.remotes.WithClient(ctx, request.Cluster,
			func(ctx context.Context, remote client.Client) error { ... })
	}

ControllerManagedBy is a builder in the manner of controller-runtime's. Below it there are a source
(Remotes) and a queue (NewQueue), which any controller with Request as its type can use.

# What holds

No remote can hurt the controller. The source watches each remote in a goroutine of its own, on the cache
of the remote's app, so that the objects are in memory once; the controller starts without waiting for
any of them, and one that is silent, slow or forbidden delays none of the others. This is where
multicluster-runtime blocks and ends the process: its Engage is called for one cluster after the other,
and waits for each.

Nothing is lost. A remote that is Ready again, with a new app and a new cache, makes requests for all of
its objects, and for those that have gone meanwhile, whose deletion no event tells. Requests whose turn comes
while their remote is not Ready are kept for its return, and the reconciler never sees them before that
(Builder.Build); when the remote has left the hub they are dropped. Events are
the cause of a look, never its content: a reconciler reads what is.

Remotes are served in turn. The queue has a lane for each remote and takes from one after the other, in
each the highest priority first, then the oldest. With one queue for all, a remote with a hundred thousand
events would keep the others waiting for as long as it takes to work them off. Requests of OwnsRemote are the
hub's own, whichever remote they come from, and share one lane. Requests that come from a
first list or a resync have a low priority, as everywhere in controller-runtime.

# What it costs

For each remote a goroutine and a handler at the informer, and for each object the requests that it made,
to know what has gone after an outage: about 150 bytes. An object of which nobody in the remote's app has
an informer gets one, with all objects of its kind in the hub's memory; watch a metav1.PartialObjectMetadata
where the metadata are enough.
*/
package watch
