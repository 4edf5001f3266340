// SPDX-License-Identifier: Apache-2.0

/*
Package journal records which apps a hub is starting, so that the next process of the hub knows which apps were being started
when the last process ended.

The records are in a ConfigMap of all replicas of a hub (entries.go), by the UIDs of Clusters. One goroutine of each replica writes
the keys that differ from what it knows (writer.go), by a merge patch without a version, so that replicas do not conflict. What the
ends of processes say about an app follows from its record alone (crashes.go) and is tested without an API server.

A value has the term of the shard in which it was written. A lower one than this replica's is a late write of an earlier holder:
the response to the next patch shows it, and it is written over. A replica that only builds an app to be ready for its shard
writes its start to a key of its own kind, and the holder's record stays.

An end makes no app guilty: the process may have been killed. An app that was being started at three ends in a row starts
alone, and has ended the process if that ends then, and if another app has started in it before: without that, the hub itself
is the suspect.

The registry uses a journal through registry.Journal when it starts apps, package cluster through Suspicion, Acquit and
Forget when it posts the desired state of an app, and a replica through Take and LetGo when it gets and loses a shard.
*/
package journal
