// SPDX-License-Identifier: Apache-2.0

/*
Package registry runs one dependency-injected application per remote cluster and lends out its client.

The caller tells a Registry which remotes there are (Ensure). The registry connects to each remote, probes it, checks
that it is the expected cluster, builds an fx App with a controller-runtime manager from the hub's modules, restarts
the App after a failure, and stops it when the remote is removed or unreachable. Code on the hub reaches a remote with
WithClient. The registry does not know the Cluster API: reconcilers/cluster translates.

# Parts

Read registry/state and internal/machine first. Rows import only rows below.

	watch                sources for hub reconcilers that watch remotes
	registry             the public surface, and leases
	internal/actor       one goroutine per remote: feeds the machine, carries out its actions
	internal/hubpart     the hub parts of modules, supervised
	internal/app         one life of an app: graph, hooks, manager, clean-up
	internal/probe       connections, probes, preflights, trials of credentials
	internal/catalog     the modules, their configuration, and which a remote runs
	internal/machine     the pure state machine of one remote
	internal/contain     wrappers that contain the code of modules
	internal/cache       the cache of an app: budget, filters, staleness
	internal/transport   between client and API server: deadline, rate limit, fence, gate, limits
	state, kubeconfig    the desired state and the status; a Secret's bytes as credentials

A new token takes this way: reconcilers/cluster calls Ensure; the machine orders a trial; the actor tries the
credential on a connection of its own; the machine orders the swap; kubeconfig.Transport uses it for the next request.

# Words

	hub      the process, and the management cluster it runs against
	remote   a registered cluster
	app      one remote's fx.App with its controller-runtime manager
	epoch    one life of an app; epochs are numbered
	module   a named fx.Option; its remote part is part of every selected app, its hub part runs in the hub
	lease    the loan of an app's client to a callback of WithClient

An unnamed dependency belongs to the cluster that its App runs against; the other side is named: in an app,
client.Client is the remote's and name:"manage-client" the hub's.

# States

	Pending ──probe ok──> Starting ──synced──> Ready
	   │                    ^   │                │
	   │ probe fails        │   │ fails          │ probe fails 3 times, or 401
	   v                    │   v                v
	Unreachable ──back──────┘  Failed ──retry──> Starting

Every state can change to Paused, Stopping and Stopped. Ready means that every hook has run and every controller has its initial
objects. With Desired.Warm, Starting leads to Warm: the app waits with filled caches while another hub has the remote.

Probes decide about reachability, never informers: an informer of a silent API server reports no error at all (0 in
240 s, measured), and takes up to 90 s to see that it is back, while a new epoch takes a fraction of a second. A
failed app restarts with a backoff up to 2 min.

What a change does:

	credential             tried apart, then swapped under the running app: watches and leases continue
	server, CA, proxy      a second connection is tried beside the first; then as in the next row
	modules, configuration a second app fills its caches beside the first; then controllers of the first
	namespaces, limits     end and those of the second start
	labels, probe, ...     nothing restarts, unless it causes one of the above
	middleware             used for the next request

A change that fails leaves the running app alone and shows in the Status; a credential that leads to another cluster
is refused, and a server that does stops the app. Leases, hooks and runnables without leader election of a replaced
app overlap with the next for ten seconds.

A selected module waits while the remote lacks a kind, a version or a permission that it needs, and the others run.

# Locking

The actor, one goroutine per remote, owns everything about it. Others post a desired state or a fact into its inbox;
the machine decides; the actor starts actions in goroutines that it owns, and publishes an immutable snapshot. Locks
are held for a few instructions, never across the network, a hook or a callback, so one remote cannot delay another.

Everything that acts belongs to an epoch. Stopping means: fence, then clean up. The fence is a context that each request checks
right before it is sent; ending it takes microseconds and needs nothing of the remote. Clients of modules have a second, inner
fence, for a replacement while leases continue. An app that has not ended after StopTimeout is left behind as a zombie.

Options.Gate decides about each write, right before it is sent, and cannot recall one that it let pass. So whoever
hands a remote to another process must close the gate, and then call AwaitWrites.

# Why

A module is ordinary fx. fx is not made to be nested, so it only builds the graph, and the registry runs the hooks (internal/app).
Each remote has its own manager; the price is memory. All modules of a remote share one app and one cache, and fail together.

# Not contained

These end the process: a panic in a goroutine that a module starts itself, in source.Func or source.Channel, in a
LogConstructor, RateLimiter or NewQueue, or in an unsupervised Reconcile with RecoverPanic off; os.Exit; memory
corruption. Use reconcilers, or runnables added to the manager. Since a remote can make a decoder of client-go panic,
main must set utilruntime.ReallyCrash to false. calledfunctions_test.go lists every call of a module's code.
*/
package registry
