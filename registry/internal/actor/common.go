// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Common has what the Actors of a hub share. All fields are required.
type Common struct {
	Apps *app.Common
	Log  logr.Logger
	// Key is the key of the fingerprints that tell credentials apart.
	Key         []byte
	Policy      kubeconfig.Policy
	Connections probe.Options
	LeaseGrace  time.Duration
	// Secrets replaces the credentials of the remotes and the hub in texts.
	Secrets    *kubeconfig.Redactor
	Modules    catalog.Catalog
	Offered    func() catalog.Offers
	Middleware Middleware
	// Undeclared is for an app with these modules, of a remote with these labels.
	Undeclared   func(run []catalog.Choice, labels map[string]string) cache.Undeclared
	HubTransport func(state.ClusterName) http.RoundTripper
	Graph        func(Start) app.Graph
	Explain      func(message string, problem state.Problem) string
	NextEpoch    func() int64

	// Claim claims the cluster with an id for a remote. It returns the name of an older remote that has the claim.
	Claim func(id string, name state.ClusterName, since time.Time) (holder state.ClusterName)
	// IsHub reports whether an id belongs to the hub's own cluster, which must not be a remote.
	IsHub func(id string) bool
	// Forget removes an ended Actor, unless a new desired state was posted, and calls last before the name is used
	// again.
	Forget func(a *Actor, last func()) bool
	// Changed is called after a change of a remote. It must return at once.
	Changed func(before, after *Snapshot)
	Zombies atomic.Int64

	steps sync.Map // the names of the cleanup steps of all apps so far
}

// Middleware changes the limits and the requests of apps.
type Middleware interface {
	// Limits returns the limits as the middleware changes them. The error has the middleware that failed, which the limits are without.
	Limits(name state.ClusterName, c *state.Desired) (state.ClientLimits, error)
	// Wrap returns a transport through the middleware and then send, or nil if none wraps it. desired returns the desired state in
	// use; the same pointer must be the same state.
	Wrap(name state.ClusterName, desired func() *state.Desired, send http.RoundTripper) http.RoundTripper
	// Wraps reports whether a middleware wraps the transport of a remote in this state, or its selection fails.
	Wraps(name state.ClusterName, c *state.Desired) bool
}

// Start describes a new app.
type Start struct {
	Selection catalog.Selection
	Status    state.Status
	Facts     *Facts
}

// Leftover is the work that the removal of a remote leaves undone. registry.AbandonedError describes the fields.
type Leftover struct {
	Steps   []string
	Why     string
	Problem state.Problem
	Gate    error
	Zombie  bool
}
