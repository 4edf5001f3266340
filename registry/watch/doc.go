// SPDX-License-Identifier: Apache-2.0

/*
Package watch lets controllers on the hub react to objects in its remotes, for example to aggregate or to distribute
objects. A Request names a remote and an object; the reconciler reaches it with registry.WithClient:

	watch.ControllerManagedBy(mgr, remotes).
		Named("pods").
		WatchesRemote(&corev1.Pod{}, watch.Options[client.Object]{Select: state.MatchLabels(edge)}).
		Complete(r)

	func (r *pods) Reconcile(ctx context.Context, request watch.Request) (ctrl.Result, error) {
		return ctrl.Result{}, r.remotes.WithClient(ctx, request.Cluster,
			func(ctx context.Context, remote client.Client) error { ... })
	}

Below the builder are a source (Remotes) and a queue (NewQueue) for any controller of Requests.

No remote can hurt the controller: each is watched in its own goroutine, on the cache of its app, and the controller
starts without waiting for any. Nothing is lost: a remote that is Ready again makes requests for all its objects, and
for those deleted meanwhile. Requests for a remote that is not Ready are kept until it is, and dropped when it has
left the hub (Builder.Build). Events have no content: a reconciler must read the current state. Remotes are served in
turn, each the highest priority first; requests of OwnsRemote share one lane, as the hub's. First lists and resyncs
have a low priority.

It costs a goroutine and a handler for each remote, and about 150 bytes for each object, to find deleted ones after an
outage. A kind without an informer in the app gets one, with all objects in the hub's memory; watch a
metav1.PartialObjectMetadata if the metadata are enough.
*/
package watch
