// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
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

// middlewareSet is the middleware in force: that of the hub's options, and of hub parts once they are built. It is safe for
// many goroutines, and contains them: one that panics or breaks the contract of http.RoundTripper fails the request, with an
// error that names it and does not blame the remote.
type middlewareSet struct {
	mu     sync.Mutex // protects sorted; held for a few instructions
	sorted []Middleware
}

// newMiddlewareSet reports middleware without a name, and two with the same name.
func newMiddlewareSet(all []Middleware) (*middlewareSet, error) {
	s := &middlewareSet{}
	return s, s.Add(all)
}

// Add adds all, or none if one has no name or a known one. They apply to apps that are built later.
func (s *middlewareSet) Add(more []Middleware) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Replaced and never changed, so that inForce can return it.
	all := slices.SortedStableFunc(slices.Values(slices.Concat(s.sorted, more)), func(a, b Middleware) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	if err := checkNames(all); err != nil {
		return err
	}
	s.sorted = all
	return nil
}

func checkNames(all []Middleware) error {
	seen := map[string]bool{}
	for _, m := range all {
		if m.Name == "" || seen[m.Name] {
			return fmt.Errorf("there are two middlewares named %q, or one without a name; give each a name of its own", m.Name)
		}
		seen[m.Name] = true
	}
	return nil
}

func (s *middlewareSet) inForce() []Middleware {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted
}

func (s *middlewareSet) Limits(name ClusterName, c *state.Desired) (state.ClientLimits, error) {
	limits := c.Client
	var failed []error
	all := s.inForce()
	for i := range all {
		m := &all[i]
		if m.Client == nil {
			continue
		}
		selected, err := m.selects(name, c)
		if err == nil && selected {
			err = panics.Catch(func() error {
				limits = m.Client(limits)
				return nil
			})
		}
		if err != nil {
			failed = append(failed, &brokenMiddlewareError{m.Name, err})
		}
	}
	return state.Desired{Client: limits}.WithDefaults().Client, errors.Join(failed...)
}

func (s *middlewareSet) Wrap(name ClusterName, desired func() *state.Desired, send http.RoundTripper) http.RoundTripper {
	var outermost http.RoundTripper
	all := s.inForce()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Transport == nil {
			continue
		}
		outermost = &middlewareTransport{middleware: &all[i], name: name, desired: desired, next: send}
		send = outermost
	}
	return outermost
}

func (s *middlewareSet) Wraps(name ClusterName, c *state.Desired) bool {
	all := s.inForce()
	for i := range all {
		if all[i].Transport == nil {
			continue
		}
		if selected, err := all[i].selects(name, c); selected || err != nil {
			return true
		}
	}
	return false
}

func (m *Middleware) selects(name ClusterName, c *state.Desired) (selected bool, err error) {
	if m.Select == nil {
		return true, nil
	}
	err = panics.Catch(func() error {
		selected = m.Select(Status{Name: name, Labels: c.Labels, Annotations: c.Annotations})
		return nil
	})
	return selected, err
}

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
