// SPDX-License-Identifier: Apache-2.0

/*
Package hubwatch watches objects of the hub once for all apps. A Pool has one informer for each kind, form (whole objects or
metadata) and selection of the process, however many apps want its objects. An app subscribes with a route, such as the
value of a label, and the keys that are its own; the informer starts with the first Subscription and ends, with its memory,
after the last.

The cost is what decides the design. With a handler for each app, an informer would call 500 handlers for each of 10 000
objects, five million calls, 499 of 500 for nothing. Here the informer has one handler. It keeps an index of the objects
and of the subscriptions by route and key, so an event costs two lookups and a note for each Subscription that it concerns.
A Subscription that comes later gets its objects from the index. With the route All an object concerns every Subscription,
and all of them share its tombstone.

No code of a module runs in the goroutine of the informer. A note is an entry in a map of a Listener; notes of one object
are one until the Listener takes them. So an app that is slow or stuck delays no other app, and its memory is bounded by
its objects and its tombstones, of which a subscription has at most 10 000, for an hour.

Reads, notes and tombstones come from the same index under one lock: a reader that does not find an object also finds its
tombstone. The store of the informer is ahead of its events, so a reader of the store would not.

A delete that a watch has reported differs from an object that a later list lacks: after the loss of the hub's data each
object is missing from the list. Tombstone.Seen tells them apart.
*/
package hubwatch
