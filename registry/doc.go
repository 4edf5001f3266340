// SPDX-License-Identifier: Apache-2.0

/*
Package registry runs one dependency-injected application per remote cluster and lends out its
client.

A Registry is told which remotes there should be (Ensure) and keeps it so: it connects, probes,
checks that the remote is the cluster it was before, builds an fx App with a controller-runtime
manager from the modules of the hub, starts it again when it fails, and takes it down when the
remote is not wanted or not reachable any more. Code on the hub reaches a remote with WithClient.
The registry knows nothing of the Cluster API; reconcilers/cluster translates between the two.

# Words

	hub      the process, and the management cluster it runs against
	remote   a registered cluster
	app      one remote's fx.App with its controller-runtime manager
	epoch    one life of an app, from its start to its end; they are counted per remote
	module   a named fx.Option; its remote part goes into every selected app
	lease    the loan of an app's client to a callback of WithClient

An unnamed dependency belongs to the cluster that its App runs against; the other side is always
named. In an app, client.Client is the remote's and name:"manage-client" is the hub's.

# Usage

	r, err := registry.New(registry.Options{Hub: config, HubMapper: mapper, Scheme: scheme,
		Modules: []registry.Module{inventory.Module}})
	err = r.Ensure("edge-1", state.Desired{Endpoint: endpoint, Credential: credential})
	err = r.WithClient(ctx, "edge-1", func(ctx context.Context, remote client.Client) error {
		return remote.List(ctx, &nodes)
	})

In a hub's fx App, FX provides the Registry, and Module.Option adds a module.

# What happens to a remote

	Pending ──probe ok──> Starting ──synced──> Ready
	   │                    ^   │                │
	   │ probe fails        │   │ fails          │ probe fails 3 times, or 401
	   v                    │   v                v
	Unreachable ──back──────┘  Failed ──retry──> Starting

Paused, Stopping and Stopped are reached from everywhere. Only Ready lends out a client. A remote
is Ready when every hook of every module has run and every controller has seen its initial
objects.

A remote that does not answer is probed every second and gets a new epoch when it does, as soon as
the old one is out of the way:
informers need up to a minute and a half to notice that an API server is back, and never notice
that it has gone silent, whereas a new epoch takes a fraction of a second. One that is lost again
within a minute of its return has to answer twice as many probes in a row each time, up to thirty,
before it is believed. A failed probe of a time in which the hub itself was starved, frozen or out of
file descriptors counts for nothing, unless it is the second such in a row.

An app that fails (a constructor, hook or runnable that returns an error or panics, a handler that
panics, a manager that ends) is started again after 1 s, 2 s, 4 s and so on up to 2 min, jittered by
20 %; ten minutes of health forget the count, and a changed configuration is tried at once.

# What a change does

	credential             tried on a connection of its own, then swapped under the running app: no watch is
	                       listed anew, no lease fails
	server, CA, proxy      a second connection is tried beside the first; then as below
	the set of modules,    a second app is built beside the first and fills its caches; the
	their configuration,   controllers of the first end, those of the second begin
	namespaces, rate
	limits
	labels, probe, ...     nothing is restarted, unless one of the above follows from it
	middleware            the next request

While one app takes the place of another there is always one whose client is lent out, and never two
whose controllers work. The second app starts everything that needs no leader election while it fills its caches,
also the caches and clusters that modules add to their managers (owncache.go). If the configuration changes again in that time, the second app takes over all the same
and a third is built beside it; if the second app fails, the first lends out its client until another one is
ready. Leases of a replaced app continue for ten seconds. Hooks and runnables that need no
leader election overlap for that time, and a module must bear that. What does not work out (a server
that does not answer, a module that cannot be built) leaves what runs alone and is shown; a server that
leads to another cluster stops the app.

A credential that works is replaced by another one only when the remote has accepted that one, or when
Config.AcceptCredential demands it (trial.go). A trial that fails is repeated with the backoff of apps, and Info
says why the wanted credential is not in use. A credential that lacks a permission which a module declares is swapped
after an app without that module has taken over. A credential that leads to another cluster is refused; if that
cluster is accepted, the app ends first. While a remote is away, the newest credential is swapped at once, and
the last good one is tried when the remote refuses the newest. The registry keeps the last good one in memory
for as long as the connection.

# Which modules run

The operator says which modules are wanted: all that are on by default and whose Selector matches the
labels of the Cluster, or those that spec.modules names. Of these, one waits whose remote does not serve
a kind that it requires, has another version than it is meant for, or does not grant a right that it declares
(ModuleOptions.Rules); it is left out of the app, Info says why, and the others run. The choice is a pure
function (selection.go) of the configuration, the version and the findings of a survey: once a remote answers
its probe, and from then on every ten seconds while something is missing and every minute otherwise, it is
asked for the kinds and rights in question; less often from the fourth change within ten minutes on. A kind that a watch does not find any more is asked for at
once. What is gone has to be gone twice, three seconds apart, and what comes and goes is believed less
and less often: each change costs another app, and one that comes of the remote alone waits ten seconds after
the last one, then twice as long, up to five minutes. A question that is not answered changes nothing; a kind
of which nothing was ever known counts as missing.

So a CRD that is installed later starts its module then, and one that is removed stops it; what a module
watches without requiring it keeps the whole app waiting instead.

# What goes into an app beside its modules

A module's configuration (ConfigOf) is a value of a type of its own, with the overrides that the operator has
for remotes with certain labels. Share hands a value of a hub part to all apps. A Middleware wraps the
transport of the remotes that it selects, or changes their bounds; it sits where nothing that an app can make
of its clients or configuration gets round it.

# What an app caches

Modules share an informer for each kind, in the cache of the app (internal/boundcache). A CacheFilter gives a module an
informer of fewer objects, in a cache beside it. A filter in the shared cache would take objects from modules that have no
filter, and modules do not declare every kind that they read, so the registry could not report a conflict. All caches of an
app have one budget.

# Informers that cannot list or watch

An informer that has been unable to list and watch for Limits.StaleAfter makes the app Stale: the App facet of Status has the
reason state.ReasonStale with the kind, a module that uses it, the time and a classified cause, with True at first and, after
Limits.StaleTolerance, with False. The registry does not restart the app: modules and leases continue with the cached objects,
and the facet recovers when a watch has been open for five seconds.

If an API server responds with HTTP 410 to a streamed list from the newest version, a reflector repeats it at once, without a
pause. So the informer makes the reflector list instead, after which it waits.

# How a remote ends

What libraries report as an error because an app has ended is a line for debugging (endlog.go).

Stop fences the app and forgets the remote. Remove first ends the controllers and runs the modules'
CleanupSteps while the app's clients still work, within the time that it is given, and reports what
was left undone. Neither waits for a remote that does not answer.

# Lifecycle and locking

One goroutine per remote, the actor, owns everything about it. Others post a desired state or a
fact into its inbox; a pure state machine (machine.go) decides; the actor starts what was decided
in goroutines that it owns, and publishes an immutable snapshot for readers. Locks protect the
registry's map, the inboxes, the mailboxes of subscribers and small records of an epoch. All are
held for a few instructions, none across the network, a hook or a callback, so no remote can make
another one wait, and any method may be called from anywhere.

An epoch owns all that can act. Stopping it is: fence, then clean up. The fence is a context that
every request of every client of that epoch checks right before it is sent; once it has ended,
which takes microseconds, nothing the app still tries reaches any API server. What modules write with
has a second fence inside, which closes when another epoch takes over and leases go on. The clean-up gets
StopTimeout; what has not ended by then is counted as a zombie and left behind. So stopping never
depends on whether the remote answers, and a new epoch never waits for an old one for longer
than that.

Starts take turns, those of remotes that were there before first, then new ones, then those that have
failed. First contacts do, too. A turn ends after a short time whether or not the remote is done, so
that slow ones hold up nobody. With a Journal the registry records which apps are being started; after a
crash of the hub those are started last, one at a time (see Suspicion).

# What a remote may answer

Whatever a remote sends is a stranger's. Answers are judged and bounded before client-go sees them
(internal/transport): redirects, protocols and formats that nobody asked for are refused; so is an answer with
too many bytes, or one that would turn into more memory than its app may keep, which for small objects
is hundreds of times its bytes. JSON is measured by its shape, protobuf through the types that it will be
decoded to (internal/meter). An event of a watch, a refusal, a discovery document and the pages of a list have
bounds of their own, and all answers of an app together come in no faster than they can be decoded
(internal/meter). A watch that brings nothing for three minutes, no bookmark either, is begun anew. A request
tries few connections. What client-go has to say about answers is logged a few lines at a time, cut.
TestHostile runs a hundred and twenty servers that lie.

# Why it is built this way

The module contract is fx: a module is a few constructors and an invoke, and needs no API of ours
but the list of what it may ask for (Remote). What fx is bad at is being nested. Its lifecycle
loses stop hooks when a start times out, cannot be stopped twice, and dies of a panic in a hook.
So fx only builds the graph here; hooks are collected by a decorated fx.Lifecycle and run by us,
which also tells whose hook failed.

A manager per remote, not one controller for all of them: its controllers are ordinary
controller-runtime code, and its failure is one remote's. The price is memory. Most of that price
was the REST mapper, which is shared between remotes with the same discovery document, and
managedFields, which are stripped.

Probes decide on reachability, never informers: an informer of a silent API server reports no
error at all (0 in 240 s, measured), and cached reads go on answering.

A Config carries credentials rather than a Secret's name, so that stopping a remote never needs
its Secret, and so that whoever owns the Secret decides what a bad one means.

All modules of a remote share one app and one fate. Separate managers would isolate them from
each other at the price of a cache each.

# Hub parts

FX runs the hub part of each module in an App of its own, as the registry runs the app of a remote: with a manager, a
cache, clients and a handle of the Registry that are the module's (hubpart.go). What one hub part does is contained in the
same way, and so is what it gives to the registry: the functions of Follow and Source, and what it adds to the caches of
remotes with WithCluster. It is started again with the same backoff, waits for the rights that its module declares in the
hub, and is fenced when it has ended. HubParts returns the state of each. The cache is its own, so that its requests carry
its name, what it may not list is in nobody else's way, and all of it ends with it; the price is memory for kinds that
several hub parts watch.

A value of Share belongs to one life of a hub part. The remote parts that need it leave their apps when that life ends,
and come back with the value of the next one.

The table of functions_test.go lists every place where a function of a module is called, with its test.

# What is not contained

A panic in code of a module ends its app, or its hub part, and nothing else, in whichever goroutine it is called:
constructors, hooks, runnables, Reconcile, event handlers, predicates, map functions, indexers and
collectors. A reconciler that does nothing but panic or never returns is found if its controller is
supervised, as those of ControllerManagedBy are. What an app's cache may hold is bounded by Limits.

What ends the process is a panic in a goroutine that a module starts itself, also with
time.AfterFunc; in a source of its own (source.Func, and the handler and predicates of a
source.Channel); in a LogConstructor, RateLimiter or NewQueue of a controller, or in a Reconcile with
RecoverPanic off that is not supervised; besides os.Exit, and memory corruption. Put work into
reconcilers or into runnables added to the manager.

A remote can send what makes a decoder panic in a goroutine of client-go. The hub survives that
because its main sets utilruntime.ReallyCrash to false, which is global to the process and therefore
not the registry's to set.
*/
package registry
