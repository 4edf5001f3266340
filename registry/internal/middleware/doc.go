// SPDX-License-Identifier: Apache-2.0

/*
Package middleware applies the hub's middleware to the requests of apps: functions that change an app's limits, or
wrap the transport of each request. A [Set] has those of the options and of hub parts.

It contains them, too: one that panics or breaks the contract of http.RoundTripper fails the request, with an error
that names it and does not blame the remote. Each asks before a request whether it is selected, and keeps the result
for a desired state, because a Select function may be slow.
*/
package middleware
