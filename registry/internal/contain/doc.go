// SPDX-License-Identifier: Apache-2.0

/*
Package contain is the wall between the code of modules and the rest of the hub. Modules run in the process of the hub,
so a panic in one of their goroutines would end it, and a call that does not return would hold a resource that others
need.

A Guard runs the code of one module in one app. Wrappers put it around all code that a module passes to a library: the
runnables and controllers of its Manager, the handlers and indexers of its Cache, the collectors of its Registerer, and,
with Supervise, its reconcilers. A failure of the code fails the module with an error that names the module. A Gate
decides when the runnables of an app work. Queues gives the controllers of modules a work queue without goroutines.

The package knows neither the registry nor its state machine. An App consists of values and functions that decide how a
failure of a module affects it; the app of a remote and the App of a hub part fill it in.

Start with Guard, and then Manager.
*/
package contain
