// SPDX-License-Identifier: Apache-2.0

/*
Package transport is the chain of round-trippers from the clients of an app to an API server. A Chain gives every
request a deadline, the app's rate limit and a fence, and limits the response: its size, media type, connections, and
how long a watch may be silent. Start with Chain, which names the layers in order.

Spans, middleware and a gate are fields of Chain. An informer passes a WatchObserver in the context, and a
client that has to recognize errors of its decoder an Exchange.
*/
package transport
