// SPDX-License-Identifier: Apache-2.0

/*
Package transport is the chain of round-trippers between the clients of an app and an API server. A Chain gives every
request a deadline, the rate limit of the app and a fence, and limits the response: its size on the wire and in memory, its
media type, the number of connections that it may take, and how long a watch may be silent.

The package imports neither the registry nor its state. The registry extends requests with fields of Chain: spans and
middleware around them, a gate before them, and a judge of the response. An informer that observes its watch passes a
WatchObserver in the context of the request; a client that has to recognize errors of its decoder passes an Exchange.

Start with Chain, which names the layers in their order.
*/
package transport
