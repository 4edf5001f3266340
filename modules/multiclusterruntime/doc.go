// SPDX-License-Identifier: Apache-2.0

/*
Package multiclusterruntime runs controllers that were written with sigs.k8s.io/multicluster-runtime on the
remotes of a hub.

That library has controllers that see many clusters, and a provider determines which clusters exist. Here the registry
is the provider: its remotes are the clusters, with every service of the registry, from rotated credentials to restarted
apps. The package is a separate Go module, so that only its importers depend on the library.

# Usage

A hub has Module once. Hub parts of other modules ask for the library's manager and add controllers to it, as with any
other provider:

	app.Main(multiclusterruntime.Module, configmaps)

	var configmaps = registry.NewModule("configmaps", registry.ModuleOptions{
		Hub: fx.Invoke(func(mgr mcmanager.Manager) error {
			return mcbuilder.ControllerManagedBy(mgr).Named("configmaps").For(&corev1.ConfigMap{}).
				WithOptions(multiclusterruntime.ControllerOptions(mgr, mccontroller.Options{})).
				Complete(r)
		}),
		HubRuns: registry.WithRemotes,
	})

Each controller gets ControllerOptions. A hub builds its controllers again in the same process, when it has lost its
lease and when their hub part has failed; without these options controller-runtime refuses the name of a controller
the second time.

A request's ClusterName is the remote's name, and an empty one means the hub. Without fx, New does the same. A program
with its own manager passes the result of NewProvider to mcmanager.New; it also has to run the registry.

For new controllers registry/watch is the alternative: it needs no other library, has a fair queue by default, and keeps
requests until a remote returns.

# Guarantees

No remote can hurt the controllers. Each remote is engaged in a separate goroutine, when it is Ready, and
multicluster-runtime never waits for it: the informers that its sources request are returned at once and receive their
objects later. With providers whose informers wait, one cluster that does not respond holds the lock that all others
need, or ends the process if it is engaged before the controllers start.

An Engage that fails or panics is retried, for this remote only. A kind that a remote does not serve is retried until
the remote serves it, and the other kinds are watched meanwhile.

The context of an Engage ends when the remote is no longer Ready. When it is back, or when another app has replaced its
app (another server, other modules), the remote is engaged again with another cluster.Cluster, and all of its objects
make requests. The old cluster.Cluster fails with registry.ErrStopped and can reach nothing. Rotation of credentials
changes nothing.

For a remote that cannot be used, Provider.Get returns multicluster.ErrClusterNotFound at once, and the builder's
controllers drop the request. So they do no work for unreachable clusters.

Indexes are on every remote, present or future, before controllers are notified of it.

Objects are in memory once: the cache is the cache of the remote's app, which modules share, with its budget
(registry.Limits). Its objects have no managedFields.

# Panics

A panic in a handler, predicate, map function or indexer is logged, counted against the hub, and loses its event; the
remote's app and its modules continue. In a Reconcile it is an error of that request. In a cluster filter or a
projection it is a failed Engage. The same holds for a constructor of handlers (the argument of Watches) after the
controllers have started; at their start the library calls it in a separate goroutine, where a panic ends the process.
Every other panic that package registry does not contain is not contained here either.

# Limits

Objects that are deleted while a remote is unreachable make no request when it is back: the library sees existing
objects only. Waiting and failed requests are dropped with the remote, and requests for existing objects are made again.
A reconciler that needs every deletion has to use registry/watch, or a finalizer.

The library's own queue is one queue for all clusters: a remote with a hundred thousand events delays the others until
these are processed. ControllerOptions sets NewQueue, with which the remotes take turns.

Its workers are shared by all clusters. A reconciler that calls a remote which has just gone silent keeps its
worker until the call times out, so MaxConcurrentReconciles should be more than one.

Controllers that are added to the manager after its start are notified only of remotes that become Ready later.

For each engagement and source the library keeps a goroutine until the controller ends, even after the remote has left:
some kilobytes for each disconnection of a remote.

The library applies few of the manager's defaults to controllers. ControllerOptions applies them; a controller without
it has no ReconciliationTimeout, ignores RecoverPanic of the hub, and can be built only once in a process.

# Why it is built this way

Late informers are better than an Engage with a deadline, because a deadline holds the lock for its whole duration, for
one remote after the other. Informers are late only within an Engage, which their context reveals: other callers of a
remote's cache wait for an informer as usual.

Two engagements of one remote never overlap. The library treats the last call of Engage as the newest, so a call that
returns late would replace its successor, and cancel it.
*/
package multiclusterruntime
