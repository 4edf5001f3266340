// SPDX-License-Identifier: Apache-2.0

/*
Package inflight counts the writes that are on their way to remotes, and waits until there is none.

# Usage

	writes := inflight.New()
	remote := writes.Of("edge-1")

	write := remote.Begin() // then the gate decides, and then the request is sent
	write.End()             // the gate refuses it, it was not sent, or it has a response
	write.EndAfter(timeout) // otherwise: it counts until it would have timed out

	err := writes.Await(ctx, "edge-1")

# What in flight means

A write counts before it asks the gate. In the other order a write could pass the gate, the gate could close, Await could
find nothing, and then the write could be sent. So after the gate is closed and Await has returned nil, a write either has
a response, or has timed out, or was refused.

A write without a response may still take effect: its bytes can be in a buffer of a proxy, or in a handler of the API
server that does not notice that the client is gone. Nothing tells the sender. So such a write counts until it would have
timed out, no matter how early the sender has given up.

# How it works

The counts are in a fixed number of maps, each with a lock, by the hash of the name: a lock is held for a few instructions,
and writes of different remotes rarely meet. A name without a write in flight has no entry. An entry does not belong to an
app or a connection, so that it remains after the end of both. A write without a response has a timer, and no goroutine.
The first call of Await for a name makes a channel, which is closed when the count of the name reaches zero.
*/
package inflight
