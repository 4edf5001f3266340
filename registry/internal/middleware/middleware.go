// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"net/http"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Middleware has the fields of the registry's Middleware, which documents them.
type Middleware struct {
	Name      string
	Order     int
	Select    func(state.Status) bool
	Client    func(state.ClientLimits) state.ClientLimits
	Transport func(cluster state.ClusterName, next http.RoundTripper) http.RoundTripper
}

func (m *Middleware) selects(name state.ClusterName, c *state.Desired) (selected bool, err error) {
	if m.Select == nil {
		return true, nil
	}
	err = panics.Catch(func() error {
		selected = m.Select(state.Status{Name: name, Labels: c.Labels, Annotations: c.Annotations})
		return nil
	})
	return selected, err
}

// brokenError says that a broken middleware, and not the remote, failed a request.
type brokenError struct {
	name string
	err  error
}

func (e *brokenError) Error() string {
	return fmt.Sprintf("middleware %q of the hub is broken: %v", e.name, e.err)
}

func (e *brokenError) Unwrap() error { return e.err }

func (e *brokenError) NotHealthy() string { return e.Error() }
