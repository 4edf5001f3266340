// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"

	"github.com/clusterfx/clusterfx/registry/internal/middleware"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Middleware changes the requests to some remotes: it changes the limits of their apps, or wraps the transport of
// each request. It applies to all requests that an app sends to its remote: by the manager's client and cache, by
// every client that is made of its *rest.Config, and by the clients that WithClient and WithCluster lend out. It does
// not apply to probes.
type Middleware struct {
	// Name names the middleware in errors. Required.
	Name string
	// Order is its place: a middleware with a lower Order sees a request first; at the same Order the names decide.
	// Default 0.
	Order int
	// Select picks remotes. It gets their Name, Labels and Annotations and nothing else, and is called again when
	// these change, so that a label can switch a middleware on and off. It must return at once: the actor of the
	// remote waits for it. Default: nil, all remotes.
	Select func(Status) bool
	// Client changes the limits of the app's requests: it gets the limits of the Cluster, and returns the limits to
	// use. Changed limits replace the running app. It must return at once, too. Default: nil.
	Client func(state.ClientLimits) state.ClientLimits
	// Transport wraps the round-tripper of one app. Its result is used by many goroutines, must keep to
	// http.RoundTripper's contract, and must return when the request's context ends. It has its place within the
	// deadline and before the rate limit, so that it may send a request several times or not at all, and cannot
	// bypass the fence and the gate. The body of the response that it returns is limited for its reader; a body that
	// it reads itself is not. If it is not selected, requests bypass it; a change of the selection takes effect with
	// the next request. Default: nil.
	Transport func(cluster ClusterName, next http.RoundTripper) http.RoundTripper
}

// middlewareOf returns middleware in the type of its implementation, which has the same fields.
func middlewareOf(all []Middleware) []middleware.Middleware {
	var converted []middleware.Middleware
	for _, m := range all {
		converted = append(converted, middleware.Middleware(m))
	}
	return converted
}
