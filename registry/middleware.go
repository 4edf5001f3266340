// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Middleware changes limits, or wraps requests, of some apps: those of the manager, of clients made of *rest.Config, and of
// leases (WithClient, WithCluster), but not probes.
type Middleware struct {
	Name  string // Name names the middleware in errors. Required.
	Order int    // Order is its place: a lower Order sees a request first; at the same Order the names decide. Default 0.
	// Select picks remotes by Name, Labels and Annotations, and gets nothing else. It is called again when these change, so that a
	// label can switch a middleware. It must return at once: the remote's actor waits for it. Default: all.
	Select func(Status) bool
	// Client turns the Cluster's limits into those to use, at once. Changed limits replace the running app. Default: nil.
	Client func(state.ClientLimits) state.ClientLimits
	// Transport wraps the round-tripper of one app. The result must be safe for many goroutines, keep http.RoundTripper's contract,
	// and return when the request's context ends. It sits within the deadline and before the rate limit, so it may send a request
	// several times or not at all, and cannot bypass the fence and the gate. The body of the response that it returns is limited for
	// its reader; a body that it reads itself is not. A change of the selection takes effect with the next request. Default: nil.
	Transport func(cluster ClusterName, next http.RoundTripper) http.RoundTripper
}
