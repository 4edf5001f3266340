// SPDX-License-Identifier: Apache-2.0

/*
Package multiclusterruntime runs controllers that were written with sigs.k8s.io/multicluster-runtime on the
remotes of a hub.

That library has controllers that see many clusters, and leaves it to a provider which clusters there are. Here
the registry is the provider: its remotes are the clusters, with all that the registry does for them, from
credentials that rotate to apps that are started again. The package is a Go module of its own, so that the
library reaches nobody who does not want it.

# Usage

A hub has Module once. Hub parts of other modules ask for the library's manager and add controllers to it, as
they would with any other provider:

	app.Main(multiclusterruntime.Module, configmaps)

	var configmaps = registry.NewModule("configmaps", registry.ModuleOptions{
		Hub: fx.Invoke(func(mgr mcmanager.Manager) error {
			return mcbuilder.ControllerManagedBy(mgr).Named("configmaps").For(&corev1.ConfigMap{}).
				WithOptions(multiclusterruntime.ControllerOptions(mgr, mccontroller.Options{})).
				Complete(r)
		}),
	})

Each controller gets ControllerOptions. A hub builds its controllers again in the same process, when it has lost its
lease and when their hub part has failed; without these options controller-runtime refuses the name of a controller
the second time.

A request's ClusterName is the remote's name, and an empty one means the hub. Without fx, New does the same. A
program with a manager of its own gives the result of NewProvider to mcmanager.New; it has to run the registry,
too.

Who writes a controller anew has the choice between this and registry/watch, which needs no other library, has
a fair queue from the start, and keeps requests for the return of a remote.

# What holds

No remote can hurt the controllers. Each is engaged in a goroutine of its own, when it is Ready, and nothing
that multicluster-runtime does then waits for it: the informers that its sources ask for come at once and find
their objects later. With providers whose informers wait, one cluster that does not answer holds the lock that
all others have to pass, or ends the process if it is engaged before the controllers start.

An Engage that fails or panics is tried again, for this remote alone. A kind that a remote does not serve is
asked for until it does, and the other kinds are watched meanwhile.

The context of an Engage ends when the remote is not Ready any more. When it is back, or when another app has
taken the place of the one before (another server, other modules), it is engaged anew with another
cluster.Cluster, and all of its objects make requests. What was kept of the old one fails with
registry.ErrStopped and can reach nothing. Rotation of credentials is not noticed.

Where a remote cannot be used, Provider.Get says multicluster.ErrClusterNotFound at once, and the builder's
controllers drop the request. So they do no work for clusters that are away.

Indexes are on every remote, present or future, before controllers hear of it.

Objects are in memory once: the cache is that of the remote's app, which modules share, with its budget
(registry.Limits). Its objects have no managedFields.

# What panics do

A panic in a handler, predicate, map function or indexer is logged, counted against the hub, and costs the event
that it was called for; the remote's app and its modules go on. In a Reconcile it is an error of that request. In
a cluster filter or a projection it is a failed Engage. So it is in a maker of handlers (what is given to Watches)
once the controllers have started; the library calls that one in a goroutine of its own when they start, where a
panic ends the process. Anything else that is not contained in package registry is not contained here.

# Limits

Objects that go while a remote is out of reach make no request when it is back: the library looks at what there
is. Requests that waited or failed are dropped with the remote, and those for objects that there are come again.
A reconciler that has to know of every deletion belongs on registry/watch, or uses a finalizer.

The library's own queue is one queue for all clusters: a remote with a hundred thousand events delays the others until
these are processed. ControllerOptions sets NewQueue, with which the remotes take turns.

Its workers are shared by all clusters. A reconciler that calls a remote which has just gone silent keeps its
worker until the call times out, so MaxConcurrentReconciles should be more than one.

Controllers that are added to the manager after its start are told of remotes that become Ready later only.

For each engagement and source the library keeps a goroutine until the controller ends, also when the remote has
long gone: some kilobytes for every time that a remote was away.

The library applies few of the manager's defaults to controllers. ControllerOptions applies them; a controller without
it has no ReconciliationTimeout, ignores RecoverPanic of the hub, and can be built only once in a process.

# Why it is built this way

The informers come late, rather than each Engage with a deadline, because a deadline leaves the lock held for as
long as it lasts, for each remote, one after the other. They do so within an Engage only, which is told from its
context: whoever asks the cache of a remote for an informer elsewhere waits for it as usual.

Two engagements of one remote never overlap. The library takes the last call of Engage for the newest, so one
that returns late would take the place of its successor, and cancel it.
*/
package multiclusterruntime
