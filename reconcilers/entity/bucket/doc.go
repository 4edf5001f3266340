// SPDX-License-Identifier: Apache-2.0

/*
Package bucket keeps a copy of a NATS JetStream key-value bucket in memory, and knows whether the copy is complete, current, and of
the same bucket as before.

	b, err := bucket.New(bucket.Options{Name: "tenants", JetStream: connection, Writer: hubID, Gate: gate})
	go b.Run(ctx)
	unsubscribe := b.Subscribe(func(c bucket.Change) { queue.Add(c.Key) })
	entry, ok := b.Get("acme.web")

All readers in a process share one Bucket, which has one consumer on the stream. A key-value watch of NATS is no informer: it may
fall silent without an error, it does not report deletions whose markers have been compacted, and a bucket that was recreated looks
like an empty one. So a Bucket does three things that a watch does not.

# It lists again

A Bucket never resumes at a stored revision. NATS accepts a revision that the stream no longer has, or does not have yet, and then
leaves out deletions, or everything, without an error. After each loss the Bucket reads what the stream has of all keys again (20 000
keys take a tenth of a second), compares them with its copy, and reports the differences. A key that the list lacks is reported as
Missing, which is no proof of a deletion, because the bucket may have lost its data; a marker is reported as Deleted or Purged,
with its revision. A bucket in which values expire, and whose expiry makes no markers (LimitMarkerTTL), is listed each minute.

# It asks whether the watch is alive

Every five seconds the Bucket of the hub that writes (Options.Gate returns nil) writes a canary: a key with a counter. Each Bucket
of the hub has to see canaries through its watch. If it has not seen one for fifteen seconds, the watch is deaf, and the Bucket
begins again, with a backoff of 1 to 30 seconds, so that no consumers pile up. It does so, too, when the client has connected again: the
server may have forgotten the watch. That is no failure, and the backoff begins with its first step. While there is no connection the
backoff ends with the next one. A canary that is refused shows that another process has written one, or that the stream is another one
than that of the watch; the Bucket asks which.

# It asks whether the bucket is the same

The counter of the canary only grows. A bucket that was created at another time, that has no canary, or whose counter is lower than
one that was seen before was recreated, or restored from a backup: it is Changed. The memory of an earlier process is the Anchor, which
is saved before a subscriber hears of the first key, after a collection (Remember), at the end of Run, and each minute. If the Anchor
was restored, too, the mark of an object proves it: see Check.
Until an operator accepts the bucket, its entries and markers count, but a key that is not in it proves nothing.

# Lives of a key

An entity that is deleted and created again is another entity. A Life is the revision and the time of the first value that was seen
in a life. Entry.Includes says whether a Life may be that of the entry: no marker of a later revision is known. A process that did not
run while the key was deleted and created again knows the marker only if the bucket has a history of two or more values for each key.
What a process knows of markers and lives belongs to one identity of the bucket, and is forgotten with it.

# Locking

A lock protects the copy, and is not held while a subscriber is called or a request is sent. Subscribers are called one after
another, in the order of the revisions, and must not block: they are meant to add a key to a queue.
*/
package bucket
