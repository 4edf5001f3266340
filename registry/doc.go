// SPDX-License-Identifier: Apache-2.0

/*
Package registry runs one dependency-injected application per remote cluster and lends out its client.

The caller tells a Registry which remotes there are (Ensure). The registry connects to each remote, probes it, checks
that it is the same cluster as before, builds an fx App with a controller-runtime manager from the modules of the hub,
restarts the App after a failure, and stops it when the remote is removed or unreachable. Code on the hub reaches a remote
with WithClient. The registry does not know the Cluster API; reconcilers/cluster translates between the two. Its messages
state facts and name no annotation, field, flag or command of the hub: a state.Problem identifies the problem, and
reconcilers/clusterstatus adds the advice to the conditions.

# The parts

Read registry/state and registry/internal/machine first: they say what a remote can be and when it changes. The rest
carries out what the machine decides. Each part imports only parts further down.

	watch                sources for hub reconcilers that watch remotes
	registry             the public surface, and leases
	internal/actor       one goroutine per remote, which feeds the machine and carries out its actions
	internal/hubpart     the hub parts of modules, each supervised, with an App and permissions of its own
	internal/app         one life of a remote's app: its graph, hooks, manager and clean-up
	internal/permissions the permissions that modules use and do not declare
	internal/probe       the connection to a remote, its health probe and its preflight
	internal/middleware  the middleware in force, and its place in the transport chain of an app
	internal/catalog     the modules of a hub, their configuration, and which of them a remote runs
	internal/machine     the pure state machine of one remote: facts go in, actions come out
	internal/contain     wrappers that contain panics of modules: manager, cache, collectors, reconcilers
	internal/boundcache  the cache of an app: its budget, its filters, informers that cannot list or watch
	internal/restmapper  discovery, and the REST mappings that remotes share
	internal/telemetry   metrics and spans
	internal/decode      clients whose errors do not repeat the text of a response
	internal/transport   the chain between a client and an API server: deadline, rate limit, fence, gate, limits of responses
	internal/inflight    the writes that are on their way, counted by remote
	internal/meter       how much memory a response takes when it is decoded
	internal/startqueue  the order of starts and of first contacts
	internal/logsink     loggers that redact credentials, and that are quiet after the end of an app
	internal/claims      which remote represents which cluster
	internal/panics      panics as errors
	state                the desired state and the status of a remote
	rbac                 the permissions that modules need, for the tools that grant them
	moduleconfig         the operator's configuration of modules, as types
	kubeconfig           a Secret's bytes as validated credentials
	eventseries          a recorder that makes one series of the events with the same note
	liveness             heartbeats of controllers and actors

A new token in a Secret takes this way: reconcilers/cluster reads the Secret and calls Ensure; the actor gets the new
state.Desired from its inbox; the machine orders a trial of the credential; the actor tries it on a probe.Connection and
tells the machine; the machine orders the swap; kubeconfig.Transport uses the new credential for the next request.

# Words

	hub      the process, and the management cluster it runs against
	remote   a registered cluster
	app      one remote's fx.App with its controller-runtime manager
	epoch    one life of an app, from its start to its end; epochs are numbered
	life     one life of any App of the hub: an epoch, or one run of a hub part
	module   a named fx.Option; its remote part is part of every selected app
	lease    the loan of an app's client to a callback of WithClient

An unnamed dependency belongs to the cluster that its App runs against; the other side is always named. In an app,
client.Client is the remote's and name:"manage-client" is the hub's.

# Usage

	r, err := registry.New(registry.Options{Hub: config, HubMapper: mapper, Scheme: scheme,
		Modules: []registry.Module{inventory.Module}})
	err = r.Ensure("edge-1", state.Desired{Endpoint: endpoint, Credential: credential})
	err = r.WithClient(ctx, "edge-1", func(ctx context.Context, remote client.Client) error {
		return remote.List(ctx, &nodes)
	})

In a hub's fx App, FX provides the Registry, and Module.Option adds a module.

# The states of a remote

	Pending ──probe ok──> Starting ──synced──> Ready
	   │                    ^   │                │
	   │ probe fails        │   │ fails          │ probe fails 3 times, or 401
	   v                    │   v                v
	Unreachable ──back──────┘  Failed ──retry──> Starting

Every state can change to Paused, Stopping and Stopped. WithClient lends only the client of a Ready remote. A remote is
Ready when every hook of every module has run and every controller has seen its initial objects. A controller that a
running module adds later does not change that, unless it waits for its initial objects for longer than Limits.SyncTimeout:
then the App condition is False, and the modules and leases continue.

With Desired.Warm, Starting leads to Warm in place of Ready: the app is built, its hooks have run, its caches are filled, and
its controllers wait. When Desired.Warm is cleared, the same app works at once, unless the desired app has changed as well:
then another app is started. When Desired.Warm is set, a working app and its leases end, and the next app waits. A warm app
fails, is lost with its remote, and is started again as any other app; its modules count as Starting. When Desired.Warm is
cleared, the failures no longer count, and an app that has failed is started at once. A warm app that fails because the gate has
refused a write, such as that of an OnStart hook, is not counted as a failure at all. This is for a hub that
is about to take a remote over from another hub, which has the remote at work meanwhile and cleans up if the remote is
removed: the removal of a warm remote runs no cleanup step, and reports none as abandoned.

At the first contact the registry asks for the identity, the version, the results of the preflight and the discovery documents at
the same time. Only the identity decides whether the others are used: until it is known, claimed and the expected one, there is no
app, so nothing of a module sees or does anything. After an outage the identity is asked for first, and the others together.

The registry probes an unreachable remote every second, and starts a new epoch when the probe succeeds and the old epoch
has ended. It does not wait for the informers of the old epoch: informers need up to 90 seconds to notice that an API
server is back, and never notice that it no longer responds, while a new epoch takes a fraction of a second. A remote that
becomes unreachable within a minute of its return needs twice as many consecutive successful probes each time, up to
thirty. The registry ignores a failed probe if the hub itself was starved, frozen or out of file descriptors at the time,
unless the probe before failed in the same way.

The registry restarts an app that fails (a constructor, hook or runnable returns an error or panics, a handler panics, the
manager ends) after 1 s, 2 s, 4 s and so on up to 2 min, with 20 % jitter. Ten minutes without a failure reset the
backoff, and a changed configuration is tried at once.

# The effect of a change

	credential             tried on a separate connection, then swapped under the running app: watches and
	                       leases continue
	server, CA, proxy      a second connection is tried beside the first; then as in the next row
	modules and their      a second app is built beside the first and fills its caches; then the controllers
	configuration,         of the first end and those of the second start
	namespaces, limits
	labels, probe, ...     nothing restarts, unless the change causes one of the above
	middleware             used for the next request

During a replacement WithClient always lends the client of one of the two apps, and never do the controllers of both run.
While the second app fills its caches it starts everything that needs no leader election, including the caches and
clusters that modules add to their managers. If the configuration changes again in that time, the second app replaces the
first anyway and a third one is built; if the second app fails, WithClient lends the client of the first until another app
is ready. Leases of a replaced app continue for ten seconds. Hooks and runnables that need no leader election overlap for
that time, and a module must tolerate that. A change that fails (the new server does not respond, a module cannot be built)
leaves the running app alone and shows in the Status; a server that leads to another cluster stops the app.

The registry replaces a working credential only when the remote has accepted the new one, or if Desired.AcceptCredential is
set. It repeats a failed trial with the backoff of apps, and Status.NewCredential says why the desired credential is not in
use. A credential that lacks a permission which a module declares is swapped after an app without that module has replaced
the running app. The registry refuses a credential that leads to another cluster; if that cluster is accepted, the app is
stopped first. For an unreachable remote the registry swaps the newest credential at once, and tries the last accepted one
when the remote refuses the newest. It keeps the last accepted credential in memory as long as the connection.

# Which modules run

The operator selects the modules of a remote: all modules that are on by default and whose Selector matches the labels of
the Cluster, or the modules that spec.modules names. A selected module waits if the remote does not serve a kind that it
requires, has a version that it excludes, or does not grant a permission that it declares (ModuleOptions.Rules and RulesOf):
the app is built without it, the Status says why, and the other modules run. The selection is a pure function of the
configuration, the version and the results of a preflight. The preflight asks the remote for the kinds and permissions in
question: after the first successful probe, then every ten seconds while something is missing and every minute otherwise,
less often after the fourth change within ten minutes, and at once for a kind that a watch no longer finds. The registry
believes that something is gone after two results three seconds apart. Repeated changes take effect more and more slowly,
since each one costs another app: a change that comes from the remote alone waits ten seconds after the change before, then
twice as long, up to five minutes. A question without a response changes nothing; a kind that the remote was never seen to
serve counts as missing.

So installing a CRD starts the modules that require it, and removing the CRD stops them. A kind that a module watches
without requiring it keeps the whole app waiting instead.

# What an app gets beside its modules

The configuration of a module (ConfigOf) is a value of a type of its own, with the overrides of the operator for remotes
with certain labels. Share gives a value of a hub part to all apps. A Middleware wraps the transport of the remotes that it
selects, or changes their limits; it is part of the chain below the clients and the rest.Config of an app, so that the app
cannot bypass it.

# What an app caches

Modules share an informer for each kind, in the cache of the app (internal/boundcache). A CacheFilter gives a module an
informer of fewer objects, in a cache beside it. A filter in the shared cache would take objects from modules that have no
filter, and modules do not declare every kind that they read, so the registry could not report a conflict. All caches of an
app have one budget.

# Informers that cannot list or watch

An informer that cannot list and watch for Limits.StaleAfter makes the app Stale: the App condition of the Status has the
reason state.ReasonStale with the kind, a module that uses it, the time and a classified cause, with True at first and with
False after Limits.StaleTolerance. The registry does not restart the app: modules and leases continue with the cached
objects, and the condition recovers when a watch has been open for five seconds.

If an API server responds with HTTP 410 to a streamed list from the newest version, a reflector repeats it at once, without
a pause. So the informer makes the reflector list instead, after which it waits.

# The end of a remote

Stop fences the app and removes the remote. Remove first ends the controllers and runs the CleanupSteps of the modules while
the clients of the app still work, within the time that the caller allows, and reports the steps that were not done. Neither
waits for a remote that does not respond. Errors that libraries report because an app has ended are logged for debugging
only.

# Lifecycle and locking

One goroutine per remote, the actor, owns everything about it. Other goroutines post a desired state or a fact into its
inbox; the machine decides; the actor starts the actions in goroutines that it owns, and publishes an immutable snapshot for
readers. Locks protect the registry's map, the inboxes, the mailboxes of subscribers and small records of an epoch. All are
held for a few instructions, never across the network, a hook or a callback, so a remote cannot delay another remote, and
all methods may be called from any goroutine.

Everything that can act belongs to an epoch. Stopping an epoch means: fence it, then clean up. The fence is a context that
every request of every client of the epoch checks right before it is sent. Ending it takes microseconds, and afterwards no
request of the app reaches an API server. The clients of modules have a second, inner fence, which closes when another
epoch takes over while leases continue. The clean-up has StopTimeout; an app that has not ended by then is counted as a
zombie and left behind. So stopping never depends on the remote, and a new epoch waits for an old one no longer than that.

Starts wait for a slot in this order: remotes that were known before, new remotes, remotes whose app failed. First contacts
do the same. A slot is free again after a short time, whether or not the remote is done, so that a slow remote does not
delay the others. While Options.Overloaded is true there are fewer slots, down to one. With a Journal the registry records
which apps are being started; after a crash of the hub it starts these last and one at a time (see state.CrashRecord).

# The gate, and writes in flight

Options.Gate decides about each write of an app and of the leases of its client, right before it is sent, and may give the
permission a number, the term, which the user agent of the write has. The gate cannot recall a write that it has let pass.
So who hands a remote over to another process closes the gate, and then calls AwaitWrites, which returns when no write for
the remote is in flight. A write counts before it asks the gate, until its outcome is known: it was refused, it was not
sent, or it has a response. A write with any other end may still take effect, and counts until it would have timed out. The
count is that of a name (internal/inflight): it outlives epochs, connections and the remote. Without a gate nothing is
counted.

A supervised reconcile that has failed with nothing else than refused writes is no error: it is repeated after some seconds until
the gate is open.

# Limits of what a remote sends

Responses of a remote are untrusted. internal/transport checks and limits them before client-go reads them: it refuses
redirects, and protocols and formats that the client did not request; it refuses a response with too many bytes, or one
that would take more memory than the app may use, which for small objects is hundreds of times its bytes. internal/meter
measures JSON by its shape, and protobuf through the types that it is decoded to. Events of a watch, error responses,
discovery documents and the pages of a list have limits of their own, and all responses of an app together arrive no faster
than they can be decoded. A watch without any event or bookmark for three minutes is restarted. A request tries few
connections. The log messages of client-go about responses are cut and rate-limited. TestHostile runs a hundred and twenty
servers that violate the protocol, and with -short one of each kind.

# Why it is built this way

The contract of a module is fx: a module is a few constructors and an invoke, and needs nothing of this package but the list
of what it may ask for (Remote). fx is not made to be nested: its lifecycle loses stop hooks when a start times out, cannot
be stopped twice, and does not recover a panic in a hook. So fx only builds the graph; the registry collects the hooks with a
decorated fx.Lifecycle and runs them itself, and knows which module a failed hook belongs to.

Each remote has a manager of its own instead of one controller for all remotes: its controllers are ordinary
controller-runtime code, and its failure affects one remote. The price is memory. The largest part of it was the REST
mapper, which remotes with the same discovery document share, and managedFields, which the cache drops.

Probes decide whether a remote is reachable, never informers: an informer of an API server that does not respond reports no
error at all (0 in 240 s, measured), and cached reads continue to succeed.

A Desired has credentials instead of the name of a Secret, so that stopping a remote needs no Secret, and so that the owner
of the Secret decides what an invalid one means.

All modules of a remote share one app, and fail together. Separate managers would isolate them from each other at the price
of a cache each.

# Hub parts

FX runs the hub part of each module in an App of its own, as the registry runs the app of a remote: with a manager, a
cache, clients and a handle of the Registry that belong to the module. The registry contains the code of a hub part in the
same way, including the functions that it gives to Follow and Source and what it adds to the caches of remotes with
WithCluster. A hub part is restarted with the same backoff, waits for the permissions that its module declares in the hub,
and is fenced when it has ended. HubParts returns the state of each. The cache is the hub part's own, so that its requests
carry the name of the module, a denied list affects only this module, and everything ends with the hub part. The price is
memory for kinds that several hub parts watch.

If several replicas of a hub share its remotes, a hub part says where it runs (ModuleOptions.HubRuns), and New fails for a
module that does not: there is no default that is right. WithRemotes means every replica, each time with a Registry of the
remotes of that replica. OnLeader means the replica that leads, as HubPartOptions.Leader tells: the hub part has a life for each
leadership. Its clients ask the Leader before each write, and a leadership counts as ended when all of its lives have ended, so
that the hub parts of two replicas do not work at the same time. A life that ends with its leadership has not failed, and one
that fails while its writes are refused has not either. Each replica builds the first life of such a hub part when it starts,
for the kinds that it adds to the scheme.

A value of Share belongs to one life of a hub part. The remote parts that need it leave their apps when that life ends, and
return with the value of the next one.

The table in calledfunctions_test.go lists every place that calls a function of a module, with its test.

# What is not contained

A panic in the code of a module ends its app, or its hub part, and nothing else, in whichever goroutine the registry calls
it: constructors, hooks, runnables, Reconcile, event handlers, predicates, map functions, indexers and collectors. The
registry notices a reconciler that only panics or never returns if its controller is supervised, as the controllers of
ControllerManagedBy are. Limits bounds the cache of an app.

These panics end the process: in a goroutine that a module starts itself, also with time.AfterFunc; in a source of its own
(source.Func, and the handler and predicates of a source.Channel); in a LogConstructor, RateLimiter or NewQueue of a
controller; in an unsupervised Reconcile with RecoverPanic off. os.Exit and memory corruption end it too. Put work into
reconcilers, or into runnables added to the manager.

A remote can send bytes that make a decoder panic in a goroutine of client-go. The hub survives that because its main sets
utilruntime.ReallyCrash to false, which is global to the process and therefore not the registry's to set.
*/
package registry
