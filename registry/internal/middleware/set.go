// SPDX-License-Identifier: Apache-2.0

package middleware

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

// Set is the middleware in force: that of the hub's options, and of hub parts once they are built. The zero Set is
// empty. It is safe for many goroutines.
type Set struct {
	mu     sync.Mutex // protects sorted; held for a few instructions
	sorted []Middleware
}

// New returns a Set. It reports middleware without a name, and two with the same name.
func New(all []Middleware) (*Set, error) {
	s := &Set{}
	return s, s.Add(all)
}

// Add adds all, or none if one has no name or a known one. They apply to apps that are built later.
func (s *Set) Add(more []Middleware) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Replaced and never changed, so that inForce can return it.
	all := slices.SortedStableFunc(slices.Values(slices.Concat(s.sorted, more)), func(a, b Middleware) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	if err := check(all); err != nil {
		return err
	}
	s.sorted = all
	return nil
}

func check(all []Middleware) error {
	seen := map[string]bool{}
	for _, m := range all {
		if m.Name == "" || seen[m.Name] {
			return fmt.Errorf("there are two middlewares named %q, or one without a name; give each a name of its own", m.Name)
		}
		seen[m.Name] = true
	}
	return nil
}

func (s *Set) inForce() []Middleware {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted
}

// Limits returns the limits as the middleware changes them. The error has the middleware that failed, which the limits
// are without.
func (s *Set) Limits(name state.ClusterName, c *state.Desired) (state.ClientLimits, error) {
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
			failed = append(failed, &brokenError{m.Name, err})
		}
	}
	return state.Desired{Client: limits}.WithDefaults().Client, errors.Join(failed...)
}

// Wrap returns a transport through the middleware and then send, or nil if none wraps it. desired returns the desired
// state in use; the same pointer must be the same state.
func (s *Set) Wrap(name state.ClusterName, desired func() *state.Desired, send http.RoundTripper) http.RoundTripper {
	var outermost http.RoundTripper
	all := s.inForce()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Transport == nil {
			continue
		}
		outermost = &roundTripper{middleware: &all[i], name: name, desired: desired, next: send}
		send = outermost
	}
	return outermost
}

// Wraps reports whether a middleware wraps the transport of a remote in this state, or its selection fails.
func (s *Set) Wraps(name state.ClusterName, c *state.Desired) bool {
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
