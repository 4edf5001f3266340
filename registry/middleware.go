// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
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

// selects reports whether the middleware applies to a remote with this configuration.
func (d *Middleware) selects(name ClusterName, c *state.Desired) (selected bool, err error) {
	if d.Select == nil {
		return true, nil
	}
	err = panics.Catch(func() error {
		selected = d.Select(Status{Name: name, Labels: c.Labels, Annotations: c.Annotations})
		return nil
	})
	return selected, err
}

// inForce returns the middleware of the hub and of its hub parts, sorted. The middleware of a hub part is added when
// the part is built; the slice is replaced then and never changed.
func (env *environment) inForce() []Middleware {
	if all := env.middleware.Load(); all != nil {
		return *all
	}
	return nil
}

// boundsFor returns the limits of an app's requests with the changes of the middleware.
func (env *environment) boundsFor(name ClusterName, c *state.Desired) (state.ClientLimits, error) {
	bounds := c.Client
	var failed []error
	middleware := env.inForce()
	for i := range middleware {
		d := &middleware[i]
		if d.Client == nil {
			continue
		}
		selected, err := d.selects(name, c)
		if err == nil && selected {
			err = panics.Catch(func() error {
				bounds = d.Client(bounds)
				return nil
			})
		}
		if err != nil {
			failed = append(failed, &middlewareError{d.Name, err})
		}
	}
	return state.Desired{Client: bounds}.WithDefaults().Client, errors.Join(failed...)
}

// withMiddleware wraps the round-tripper of an epoch with its middleware.
func (e *epoch) withMiddleware(send http.RoundTripper) http.RoundTripper {
	middleware := e.inForce()
	for i := len(middleware) - 1; i >= 0; i-- {
		if middleware[i].Transport != nil {
			send = &middlewareTransport{middleware: &middleware[i], epoch: e, next: send}
		}
	}
	return send
}

// middlewareTransport is a middleware in the transport chain of an app.
type middlewareTransport struct {
	middleware *Middleware
	epoch      *epoch
	next       http.RoundTripper

	made     atomic.Pointer[http.RoundTripper] // by the middleware, when it was first selected
	selected atomic.Pointer[selectedFor]
}

// selectedFor is whether a middleware was selected for a configuration.
type selectedFor struct {
	config *state.Desired
	is     bool
}

// RoundTrip sends the request, through the middleware if it is selected. A middleware that panics fails the request,
// and nothing else: the goroutine may belong to client-go.
func (d *middlewareTransport) RoundTrip(r *http.Request) (response *http.Response, err error) {
	selected, err := d.isSelected()
	if err == nil && !selected {
		return d.next.RoundTrip(r)
	}
	if err != nil {
		return transport.Refuse(r, d.failed(err))
	}
	panicked := panics.Catch(func() error {
		response, err = d.transport().RoundTrip(r) //nolint:bodyclose // It is the caller's, as of any RoundTripper.
		return nil
	})
	switch {
	case panicked != nil:
		return transport.Refuse(r, d.failed(panicked))
	case err == nil && response == nil:
		return transport.Refuse(r, d.failed(errors.New("it returned neither a response nor an error")))
	case err != nil:
		if response != nil && response.Body != nil {
			response.Body.Close()
		}
		return nil, err
	case response.Body == nil: // as in a response that a middleware made itself
		response.Body = http.NoBody
	}
	return response, err
}

func (d *middlewareTransport) failed(err error) error {
	return &middlewareError{d.middleware.Name, err}
}

// middlewareError says that a broken middleware, and not the remote, failed a request.
type middlewareError struct {
	name string
	err  error
}

func (e *middlewareError) Error() string {
	return fmt.Sprintf("middleware %q of the hub is broken: %v", e.name, e.err)
}

func (e *middlewareError) Unwrap() error { return e.err }

// NotHealthy implements kubeconfig.NotHealthyError.
func (e *middlewareError) NotHealthy() string { return e.Error() }

func (d *middlewareTransport) isSelected() (bool, error) {
	config := d.epoch.wanted.Load()
	if known := d.selected.Load(); known != nil && known.config == config {
		return known.is, nil
	}
	is, err := d.middleware.selects(d.epoch.name, config)
	if err == nil {
		d.selected.Store(&selectedFor{config, is})
	}
	return is, err
}

// transport returns the middleware's round-tripper, which is made once per app. If two are made at the same time,
// only one is used.
func (d *middlewareTransport) transport() http.RoundTripper {
	if made := d.made.Load(); made != nil {
		return *made
	}
	made := d.middleware.Transport(d.epoch.name, d.next)
	d.made.CompareAndSwap(nil, &made)
	return *d.made.Load()
}

func sortedMiddleware(all []Middleware) []Middleware {
	return slices.SortedStableFunc(slices.Values(all), func(a, b Middleware) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
}

// checkMiddleware reports middleware without a name, and two with the same name.
func checkMiddleware(all []Middleware) error {
	seen := map[string]bool{}
	for _, d := range all {
		if d.Name == "" || seen[d.Name] {
			return fmt.Errorf("there are two middlewares named %q, or one without a name; give each a name of its own", d.Name)
		}
		seen[d.Name] = true
	}
	return nil
}
