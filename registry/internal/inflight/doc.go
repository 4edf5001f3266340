// SPDX-License-Identifier: Apache-2.0

/*
Package inflight counts the writes that are on their way to remotes, and waits until there is none.

	write := writes.Of("edge-1").Begin() // then the gate decides, and then the request is sent
	write.End()                          // the gate refuses it, it was not sent, or it has a response
	write.EndAfter(timeout)              // otherwise: it counts until it would have timed out
	err := writes.Await(ctx, "edge-1")

A write counts before it asks the gate: otherwise it could pass, the gate could close, Await could find nothing, and
then it could be sent. A write without a response may still take effect, from a proxy's buffer or a handler that does
not notice that the client is gone, so it counts until it would have timed out, however early the sender gave up.

Counts are in a fixed number of maps by a hash of the name, each with a lock that is held for a few instructions. They
belong to no app or connection, and remain after both.
*/
package inflight
