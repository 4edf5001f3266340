// SPDX-License-Identifier: Apache-2.0

/*
Package informer has a SharedIndexInformer of client-go's contract that costs little while nothing changes;
client-go's Reflector lists and watches for it.

client-go's informer has a queue, a goroutine that moves changes to the store, and for each handler two goroutines and
a ring of 1024 entries: with hundreds of remotes most of a hub's goroutines. Here the goroutine that reads the watch
changes the store and notes the change; a handler has a goroutine only while changes wait for it.

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
*/
package informer
