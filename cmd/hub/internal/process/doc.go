// SPDX-License-Identifier: Apache-2.0

/*
Package process is the running hub: one fx App for the management cluster, from the preflight to the last stop hook. It has a
controller-runtime manager, the registry with an App per remote and per hub part, and the reconciler of Clusters (parts.go).

	err := process.Run(ctx, process.Options{Config: config, Modules: modules})

Run binds its addresses and asks the API server for the cluster's id and for Cluster objects; a hub that cannot work
says why and does not start. fx starts the manager last and stops it first (runner.go). A hub part that fails is
retried, and the hub works without it; a manager that ends by itself ends the hub.

A hub is a replica (share.go), unless Options.Alone. It fills its caches, and then its share decides what it runs: apps, hub parts
beside remotes, and what runs once, such as registration, for which each turn has a manager (once.go). A gate before every client
refuses writes while that is not its turn, so neither a standby nor a process that was frozen can write. A lost Lease ends apps and turns;
the manager, its caches and the ports stay. When ctx ends, the hub hands over first, while everything runs, and stops then, within
[EndsWithin]. A hub that is alone has no gate, and works while its API server is away (watchretry.go).

Run leaves the process's global state alone (signals, klog, loggers), so that two hubs can run in a test; App.Wait of fx would
take over signals (shutdown.go).
*/
package process
