// SPDX-License-Identifier: Apache-2.0

/*
Package app runs the fx Apps of a hub: that of a remote, and what it has in common with that of a hub part.

A Life is one life of an App. Its context is also its fence: every client checks it right before it sends, so no
request leaves the hub once the Life has ended, although goroutines of modules may still run. A Life builds the graph,
runs the hooks, starts the manager, waits for the initial objects, and reports the state of each module. fx only
builds the graph, because its lifecycle cannot be used for an App inside an App (uber-go/fx#1035).

A Life with a Remote also takes a slot in the queue of starts, opens an entry in the journal, makes clients and leases,
and runs cleanup steps. It runs once; after a failure the actor makes another.

The package knows neither the modules nor what they may ask for: see Options and Common. Read Life.Run first, then
life.go.
*/
package app
