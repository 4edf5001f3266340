// SPDX-License-Identifier: Apache-2.0

/*
Package hubwatch watches objects of the hub once for all apps. A Pool has one informer for each kind, form and
selection. An app subscribes with a route, such as a label's value, and its keys; the informer starts with the first
Subscription and ends after the last.

Cost decides the design. A handler for each of 500 apps would be called five million times for 10 000 objects. Here an
informer has one handler and an index of objects and subscriptions by key: an event costs two lookups and a note for
each Subscription that it concerns.

No code of a module runs in the informer's goroutine. A note is an entry in a Listener's map, one for each object, so
a stuck app delays no other. Its memory is bounded by its objects and at most 10 000 tombstones for an hour.

Reads, notes and tombstones come from one index under one lock, so a reader that does not find an object finds its
tombstone. The informer's store is ahead of its events. Tombstone.Seen tells a delete that a watch reported from an
object that a list lacks, perhaps after the hub has lost its data.
*/
package hubwatch
