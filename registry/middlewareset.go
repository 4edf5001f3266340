// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/state"
)

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
