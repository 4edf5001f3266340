// SPDX-License-Identifier: Apache-2.0

/*
Package hubpart runs the hub parts of modules: the code of a module that runs once in the hub and not in the app of each
remote.

A Supervisor has a Part for each module with a hub part. A Part runs one Life after the other: it waits until the hub has
the permissions that the module declares, builds the App, runs its hooks, starts its manager, and starts a new Life with
a backoff when this Life fails. Each Life has a manager, a cache, clients and a fence of its own, so a missing permission
or a failure of one hub part does not affect the others, nor the hub.

The Supervisor builds the first Life of each Part before the manager of the hub starts, so that everything that starts
later knows the kinds that hub parts add to the scheme. Parts run on a standby, too; runnables that need leader election
wait until the hub leads. When the hub ends, the runnables of the parts stop first, and their hooks run when all apps of
remotes have ended, because apps may use values that hub parts share.

If the Supervisor has a Leader, a Part of a module that runs OnLeader runs its lives while this replica leads. Its first Life is
built as those of others, and waits. Its clients have a gate, which asks the Leader before each write, and which stays closed
for the lives of earlier leaderships. See leading.go.

The servers of the hub have no way to remove a check or a handler. If a Life adds a check or a handler, the servers get an
entry of the module; the entry calls the check or handler of the latest Life. See servers.go.

The package does not know the values that a hub part may ask for. Its caller gives it the options of the graph as a
function of the Life; see Module. Read part.go first, then life.go.
*/
package hubpart
