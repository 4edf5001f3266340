// SPDX-License-Identifier: Apache-2.0

/*
Package cache is the cache of an app: controller-runtime's, with informers that cost little while nothing changes, limits
for the memory of all objects and for the time that an informer may be without contact, and handlers that have owners.

client-go's Reflector lists and watches. client-go's informer has a queue, a goroutine that moves changes to the store,
and for each handler two goroutines and a ring of 1024 entries: with hundreds of remotes most of a hub's goroutines. In
an Informer the goroutine that reads the watch changes the store and notes the change; a handler has a goroutine only
while changes wait for it. It counts objects when they arrive, page by page and before they are stored (budget.go,
count.go), and observes its lists and watches (observe.go, freshness.go).

As in client-go: a handler gets the changes in order, one after the other, and none waits for another. A later handler
first gets the objects of the store. A change is in the store before a handler hears of it. An object that disappeared
unwatched is a DeletedFinalStateUnknown. Unchanged objects of a list are updates.

Other than in client-go:

  - A whole list enters the store at once, so a handler that looks for other objects of it finds them.
  - A streamed list passes the transform once, not twice.
  - The deletion of an object that is not in the store is not reported.
  - After the end of a handler or the informer, waiting changes are not delivered.
  - When Run has returned, no handler runs, as in client-go, and HasSyncedChecker is done as well, so that nothing
    waits for an ended informer. HasSynced says which it was.

The package does not know apps; it reports a Block, a stale informer or an exceeded budget through Options, and a
failure of code in the goroutines of informers to its Owner. Decoders quote what they cannot decode, so an error after
a response that has arrived in full (package transport knows) loses its text, for caches and, by NewCheckedClient and
CheckedReader, for the clients of an app. Start with Cache, then Informer.
*/
package cache
