// SPDX-License-Identifier: Apache-2.0

/*
Package multiclusterruntime runs controllers of sigs.k8s.io/multicluster-runtime on the remotes of a hub: the registry is the
provider. It is a separate Go module, so that only its importers depend on the library.

A hub has Module once. Hub parts ask for mcmanager.Manager and add controllers, each of which must have ControllerOptions. A
request's ClusterName is the remote's name; empty is the hub. Without fx, use New, or NewProvider with a manager of your own,
which must also run the registry. For new controllers registry/watch needs no other library, is fair, and keeps requests
until a remote returns.

# Guarantees

No remote can hurt the controllers. Each is engaged in its own goroutine, when it is Ready. Informers are returned at once and
get their objects later, but only within an Engage: the library holds a lock there that all remotes need. An Engage that fails
or panics, and a kind that is not served yet, is retried for this remote only. Two engagements of a remote never overlap, since
the library takes the last call for the newest.

The context of an Engage ends when the remote is no longer Ready. Later, or with another app, it is engaged again with
another cluster.Cluster, and all its objects make requests; the old one fails with registry.ErrStopped. Rotated credentials
change nothing. Provider.Get returns multicluster.ErrClusterNotFound at once for a remote that cannot be used, and
controllers drop the request. Indexes are on every remote before controllers hear of it. The cache is the app's, within its
budget, without managedFields.

A panic in a handler, predicate, map function or indexer is logged, counted against the hub, and loses its event. In a
Reconcile it is the error of a request, in a cluster filter, a projection, or after the start in a constructor of handlers a failed
Engage. At their start the library calls constructors in a goroutine, where a panic ends the process.

# Limits

Objects that are deleted while a remote is away make no request; use registry/watch or a finalizer if you need every
deletion. Workers are shared by all clusters, and one that calls a silent remote is kept until its time-out: set
MaxConcurrentReconciles above one. Controllers that are added after the manager's start hear only of remotes that become
Ready later. The library keeps a goroutine for each engagement and source until the controller ends.
*/
package multiclusterruntime
