// SPDX-License-Identifier: Apache-2.0

/*
Package bucket keeps a copy of a NATS JetStream key-value bucket in memory, and knows whether the copy is complete, current, and
of the same bucket as before. All readers in a process share one Bucket, with one consumer.

	b, err := bucket.New(bucket.Options{Name: "tenants", JetStream: connection, Writer: hubID, Gate: gate})
	go b.Run(ctx)
	unsubscribe := b.Subscribe(func(c bucket.Change) { queue.Add(c.Key) })
	entry, ok := b.Get("acme.web")

A watch of NATS may fall silent without an error, does not report deletions whose markers were compacted, and shows a recreated
bucket as an empty one. So a Bucket does three things more.

It lists again after each loss, and never resumes at a revision: NATS accepts one that the stream does not have, and leaves out
deletions, or everything. It reports the differences: a key that the list lacks is Missing, which proves nothing; a marker is
Deleted or Purged. 20 000 keys take a tenth of a second. A bucket whose values expire without markers is listed each minute.

It asks whether the watch is alive: the hub that writes (Options.Gate) writes a canary with a counter each five seconds. A
Bucket that sees none for fifteen begins again, with a backoff of 1 to 30 seconds; so it does after each reconnect, since the
server may have forgotten the watch. A refused canary shows another writer or another stream; the Bucket asks which.

It asks whether the bucket is the same. The canary's counter only grows: another time of creation, no canary, or a lower counter
means recreated or restored: Changed. Until an operator accepts the bucket, what is in it counts, and what is missing proves
nothing. The Anchor is the memory of earlier processes, saved before a subscriber hears of the first key, after a collection
(Remember), at the end and each minute. If it was restored, too, the mark of an object proves it: see Check.

A Life is the revision and time of the first value that was seen between creation and deletion. A process that did not run
during a deletion and creation sees it only if the bucket has a history of two or more values. What is known of lives ends with
the identity of the bucket.

No lock is held while a subscriber is called or a request is sent.
*/
package bucket
