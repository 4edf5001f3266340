// SPDX-License-Identifier: Apache-2.0

/*
Package contain is the wall between the code of modules and the rest of the hub. In the hub's process a panic would
end everything, and a call that does not return would hold what others need.

A Container runs the code of one module in one app. Wrappers put it around all that a module passes to a library:
runnables and controllers of its Manager, collectors, and with Supervise its reconcilers; for package cache it owns
handlers and indexers.
A failure fails the module by name. A Gate decides when runnables work; Queues gives controllers a queue
without goroutines. An App says, in values and functions, how a failure affects it. Start with Container, then Manager.
*/
package contain
