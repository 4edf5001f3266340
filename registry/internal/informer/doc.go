// SPDX-License-Identifier: Apache-2.0

// Package informer has an informer that costs little while nothing changes. It is a SharedIndexInformer of client-go
// with the same contract, and client-go's Reflector lists and watches for it.
//
// client-go's informer puts each change into a queue, from which a goroutine moves it to the store and on to the
// handlers, of which each has two more goroutines and a ring of 1024 entries. With hundreds of remotes, each with a
// few kinds and handlers, these are most of the goroutines of a hub and a good part of its memory. Here the goroutine
// that reads the watch changes the store itself, and notes the change for each handler. A handler has a goroutine only
// while changes wait for it.
//
// # Contract
//
// As in client-go: a handler receives the changes in their order, one after the other, and no handler waits for
// another one. A handler that is added later receives the objects of the store first. A change is in the store before
// a handler hears of it. An object that disappeared while nothing was watched is reported as a
// DeletedFinalStateUnknown. Objects of a list that have not changed are reported as updates.
//
// Other than in client-go:
//
//   - A whole list enters the store at once, so a handler that looks for other objects of the list finds them.
//   - A streamed list passes the transform once, not twice.
//   - The deletion of an object that is not in the store is not reported, because no handler knows of the object.
//   - After the removal of a handler, and after the end of the informer, changes that wait are not delivered.
//   - Run returns when no handler runs, as in client-go, and HasSyncedChecker is then done as well, so that no
//     goroutine waits for an informer that has ended. HasSynced says which of the two it was.
package informer
