// SPDX-License-Identifier: Apache-2.0

/*
Package hubpart runs the hub parts of modules: code that runs once in the hub, and not in the app of each remote.

A Supervisor has a part for each such module, which runs one Life after the other: it waits for the declared
permissions, builds the App, runs its hooks, starts its manager, and starts again with a backoff. Each Life has a
manager, cache, clients and fence of its own, so that no failure affects others.

The first Life is built before the hub's manager starts, so that everything later knows the kinds of hub parts. At the
end the runnables stop first, and the hooks run after all apps, which may use shared values. A part with a Turn has lives
only while that lasts, and its clients ask it before each write (turn.go). Checks and handlers on the hub's
servers cannot be removed, so an entry leads to the latest Life (servers.go).

The caller gives the options of the graph: see Module. Read part.go first, then run.go.
*/
package hubpart
