// SPDX-License-Identifier: Apache-2.0

/*
Package app is a hub: the program, and the hub as a function for tests.

# Usage

A hub with modules of one's own is one line of Go, with the commands, flags and logs of the stock
hub:

	func main() { os.Exit(app.Main(podcount.Module)) }

Modules that come with clusterfx are added by name, or all of them with modules.All. Tests run a
hub in their own process:

	err := app.Run(ctx, app.Options{Config: config, Modules: []registry.Module{podcount.Module}})

# What a hub consists of

The hub is one fx App. It holds a controller-runtime manager for the management cluster, the
registry that runs one more App per remote, and the reconciler that tells the registry of Cluster
objects. The hub part of every module is an App of its own, which the registry runs, too. It may ask
for what registry.HubPart lists, and for:

	cluster.Settings       such as the credentials namespace
	fx.Shutdowner          ends the hub, with an exit code

An unnamed value belongs to the cluster that the App runs against, here the hub, as in a remote's
App it belongs to the remote.

# Life

Run first takes its addresses, and asks the API server which cluster this is and whether it knows
Cluster objects; a hub that cannot work says so and does not start. The manager runs in a goroutine
that fx starts last and stops first. Hub parts are built before that and started by it; a hub part
that cannot be built or started, or that fails, is shown and tried again, and the hub works without it. A manager that ends by itself ends
the hub. Main makes the error the program's: nothing else in here exits.

The registry is a runnable that needs the lease. When the hub is asked to stop, all apps have ended
before the lease is given back, and the next leader never meets an app of this one. That takes less
than the 30 s that Kubernetes waits, whatever the remotes do: an app that has not ended within
Registry.Limits.StopTimeout is left behind.

# Terms

A hub that has to be elected lives in terms, and a term of the hub is what an epoch is for a remote:
it owns everything that can act. It begins as a standby, whose App is complete and whose caches are
filled, but whose runnables that need the lease wait. It ends when the hub is stopped, or when the
lease is lost: because another hub has it, or because it could not be renewed.

	standby ──lease──> leader ──stopped──> everything ends, the lease is given back, Run returns
	   ^                  │
	   └─ a new term ─────┘ lease lost: the gate closes, everything ends

Whatever the hub sends passes a gate that refuses mutating requests unless this hub is the leader at
that moment; internal/lease says when that is. It is before the wire of every client of the hub's
own (client.Client, the recorder of events, *rest.Config) and of every app. So a standby cannot
write, neither can what is left of a term that is over, and a process that was frozen writes nothing
when it goes on unless it still has the lease. The error says "this hub is not the leader". Events
are dropped.

After a lost lease the App is built anew, in the same process: constructors, invokes and hooks of
hub parts run again, and what they registered (collectors, checks, handlers, indexes) was the old
term's. Before that the hub waits until the API server is well, which it most often was not; it is
alive and not ready meanwhile. Only where something of the old term has not stopped in its time,
Run returns an error, and the process has to end: two Apps must not act at once.

A hub that is alone, without Options.Election, has one term and no gate. It works on when the hub's
API server is away, and catches up when that is back.

# Considerations

Run leaves everything alone that belongs to the process: signals, klog, controller-runtime's and
fx's global loggers. Two hubs can run in one test. That is why the App waits for fx.Shutdowner in a
way of its own: App.Wait of fx would take over SIGINT and SIGTERM.

The addresses of metrics and health belong to Run, not to a term (internal/serving), so that a
process that starts over is not taken for a dead one.

The lease is kept outside of the manager, which is only told when it is its turn. A manager that
loses its own election returns without waiting for its runnables, and nobody could say any more
when the last one of them has ended.

Flags are the program's configuration, and a file may hold them together with that of the modules:

	apiVersion: config.clusterfx.dev/v1alpha1
	kind: HubConfiguration
	flags:
	  concurrency: 100
	  allow-cidr: [10.0.0.0/8]
	modules:
	- name: scanner
	  config: {interval: 1m}
	  overrides:
	  - selector: {matchLabels: {tier: edge}}
	    config: {interval: 10m}

A flag on the command line goes before the file, the file before the default. The file is read once, when
the program starts, and strictly: a field, a flag or a module that is not known is an error, and so is what
a module refuses. Nothing below this package reads files or the environment, but for the variables of
OpenTelemetry (OTEL_*), which the command run leaves to internal/tracing.
*/
package app
