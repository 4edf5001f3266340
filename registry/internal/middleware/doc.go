// SPDX-License-Identifier: Apache-2.0

/*
Package middleware applies the middleware of the hub to the requests of apps: functions that change the limits of an app,
or wrap the transport of each request. The options of the registry and the hub parts of modules add middleware; a
[Set] has the middleware in force, sorted.

Middleware is code of modules and of the program, so the package contains it: a middleware that panics or breaks the
contract of http.RoundTripper fails the request, with an error that names the middleware and does not blame the remote.

Each middleware has its place once in each chain of an app, and asks before each request whether it is selected. The result
is kept for the desired state that it was asked about, because a Select function may be slow, and an app sends many
requests between two changes of the desired state.

The package knows no apps: an app is the name of its remote and a function that returns the desired state in use.

The files: middleware.go has a Middleware, set.go the middleware in force, transport.go its place in the transport chain
of an app.
*/
package middleware
