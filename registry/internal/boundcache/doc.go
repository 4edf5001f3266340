// SPDX-License-Identifier: Apache-2.0

/*
Package boundcache is the cache of an app with limits: for the memory that its objects take up, and for the time that an
informer may be without contact to its API server.

A Cache wraps the cache of controller-runtime and makes each of its informers an Informer. The Informer counts objects when
they arrive, page by page and before they are stored (budget.go, pagination.go), and observes each list and watch begin, fail
and end (freshness.go). A module that declares a Filter reads from a cache of its own beside the others, within the same
budget.

The package does not know apps, and knows modules by their names only: it gets values and functions in Options, and
reports a Block, a stale informer or an exceeded budget with a call. It imports the chain of round-trippers, which reports the silence of a watch to an Informer.
It does not contain panics of the code that it calls, except those of transforms and decoders; the app wraps the Cache for
that.

Start with Cache, and then Informer.
*/
package boundcache
