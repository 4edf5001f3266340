// SPDX-License-Identifier: Apache-2.0

/*
Package app runs the fx Apps of a hub: the app of a remote, and the part of an App's life that the app of a remote and
the hub part of a module have in common.

A Life is one life of an App. It owns a context, which is also its fence: every client of the App checks the context
right before it sends a request, so that no request leaves the hub once the Life has ended, although goroutines of its
modules may still run. A Life builds the graph, runs the hooks of the modules, starts the manager, waits until every
controller has its initial objects, and reports the state of each module meanwhile.

An Epoch is a Life that runs against a remote. Its number is unique in the hub. It takes a slot in the queue of starts,
opens an entry in the journal, makes the clients, lends a client to callbacks of WithClient, and runs the cleanup steps of its modules
before the remote is removed. An Epoch runs once: after a failure the actor of the remote makes another Epoch.

The discovery documents of a remote can be requested before its Epoch exists, and handed to the Epoch: see Early.

fx builds the graph and calls the invokes; it runs nothing. The Life runs the hooks, because the lifecycle of fx cannot
be used for an App inside an App: a start that times out leaves hooks behind (uber-go/fx#1035).

The package knows neither the modules of the hub nor the values that a module may ask for. Its caller gives it the
options of the graph as a function of the Epoch, and everything else as values: see Options. What all Lives of a hub
share is in a Host.

Read epoch.go first: Epoch.Run is the life of an app from the first step to the last. life.go has the steps that hub
parts use, too.
*/
package app
