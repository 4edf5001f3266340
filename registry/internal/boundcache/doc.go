// SPDX-License-Identifier: Apache-2.0

/*
Package boundcache is the cache of an app with limits: for the memory of its objects, and for the time that an
informer may be without contact.

A Cache wraps controller-runtime's and makes each informer an Informer, which counts objects when they arrive, page by
page and before they are stored (budget.go, pagination.go), and observes lists and watches (freshness.go). A module
with a Filter reads from a cache of its own beside the others, within the same budget. The package does not know apps;
it reports a Block, a stale informer or an exceeded budget through Options, and contains only panics of transforms and
decoders.

Decoders quote what they cannot decode, so an error after a response that has arrived in full (package transport knows) loses its
text, for caches and, by NewCheckedClient and CheckedManager, for the clients of an app. Start with Cache, then Informer.
*/
package boundcache
