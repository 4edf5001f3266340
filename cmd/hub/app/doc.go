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
registry that runs one more App per remote, the reconciler that tells the registry of Cluster
objects, and the hub part of every module. A hub part may ask for:

	*registry.Registry     the way to the remotes
	ctrl.Manager           of the hub, and of it: client.Client, client.Reader (name:"api-reader"),
	                       cluster.Cluster, cache.Cache, *rest.Config, *runtime.Scheme,
	                       meta.RESTMapper, events.EventRecorder
	logr.Logger            the hub's
	prometheus.Registerer  what --metrics-bind-address serves
	fx.Shutdowner          ends the hub, with an exit code

An unnamed value belongs to the cluster that the App runs against, here the hub, as in a remote's
App it belongs to the remote.

# Life

Run first asks the API server which cluster this is and whether it knows Cluster objects; a hub
that cannot work says so and does not start. The manager runs in a goroutine that fx starts last
and stops first, so hooks of modules run before there are caches: work belongs into the manager,
hooks are for what the manager does not know. A manager that ends by itself, as it does when the
lease is lost, ends the hub. Main makes the error the program's: nothing else in here exits.

The registry is a runnable that needs the lease. When the hub is asked to stop, all apps have ended
before the manager gives the lease back, and the next leader never meets an app of this one.

# Considerations

Run leaves everything alone that belongs to the process: signals, klog, controller-runtime's and
fx's global loggers. Two hubs can run in one test. That is why the App waits for fx.Shutdowner in a
way of its own: App.Wait of fx would take over SIGINT and SIGTERM.

Flags are the program's only configuration. Nothing below this package reads the environment.
*/
package app
