// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// middlewareTransport asks before each request whether its middleware is selected, and keeps the result for a desired state,
// because a Select function may be slow.
type middlewareTransport struct {
	middleware *Middleware
	name       ClusterName
	desired    func() *state.Desired
	next       http.RoundTripper

	made     atomic.Pointer[http.RoundTripper] // by the middleware, when it was first selected
	selected atomic.Pointer[selectedFor]
}

type selectedFor struct {
	desired *state.Desired
	is      bool
}

// RoundTrip uses the middleware if it is selected. A panic fails the request and nothing else: the goroutine may be
// client-go's.
func (t *middlewareTransport) RoundTrip(r *http.Request) (response *http.Response, err error) {
	selected, err := t.isSelected()
	if err == nil && !selected {
		return t.next.RoundTrip(r)
	}
	if err != nil {
		return transport.Refuse(r, t.failed(err))
	}
	panicked := panics.Catch(func() error {
		response, err = t.transport().RoundTrip(r) //nolint:bodyclose // It is the caller's, as of any RoundTripper.
		return nil
	})
	switch {
	case panicked != nil:
		return transport.Refuse(r, t.failed(panicked))
	case err == nil && response == nil:
		return transport.Refuse(r, t.failed(errors.New("it returned neither a response nor an error")))
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

func (t *middlewareTransport) failed(err error) error {
	return &brokenMiddlewareError{t.middleware.Name, err}
}

func (t *middlewareTransport) isSelected() (bool, error) {
	desired := t.desired()
	if known := t.selected.Load(); known != nil && known.desired == desired {
		return known.is, nil
	}
	is, err := t.middleware.selects(t.name, desired)
	if err == nil {
		t.selected.Store(&selectedFor{desired, is})
	}
	return is, err
}

// transport makes the round-tripper once per chain. If two are made at the same time, one is used.
func (t *middlewareTransport) transport() http.RoundTripper {
	if made := t.made.Load(); made != nil {
		return *made
	}
	made := t.middleware.Transport(t.name, t.next)
	t.made.CompareAndSwap(nil, &made)
	return *t.made.Load()
}

// brokenMiddlewareError says that a broken middleware, and not the remote, failed a request.
type brokenMiddlewareError struct {
	name string
	err  error
}

func (e *brokenMiddlewareError) Error() string {
	return fmt.Sprintf("middleware %q of the hub is broken: %v", e.name, e.err)
}

func (e *brokenMiddlewareError) Unwrap() error { return e.err }

func (e *brokenMiddlewareError) NotHealthy() string { return e.Error() }
