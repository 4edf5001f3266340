// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/deletions"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Common has what all Apps of a hub share.
type Common struct {
	// Root is the parent of the contexts of all Lives, and ends after the last of them.
	Root    context.Context //nolint:containedctx // See above.
	Replica string
	// Scheme has the kinds that the clients know, and Schemas their sizes in memory.
	Scheme     *runtime.Scheme
	Schemas    *meter.Schemas
	Hub        *rest.Config
	HubMapper  meta.RESTMapper
	Mappings   *restmapper.Mappings
	Registerer prometheus.Registerer
	Metrics    *telemetry.Metrics
	// Tracer is nil if the hub collects no traces.
	Tracer *telemetry.Tracer
	// Queues makes the queues of controllers; nil if controller-runtime does.
	Queues *contain.Queues
	Gate   func(state.ClusterName) (term int64, err error)
	// HubMiddleware wraps requests to the hub of the app of a remote, and of hub parts, in a rehearsal: then clients refuse what is
	// no dry run. Default: nil.
	HubMiddleware func(state.ClusterName, http.RoundTripper) http.RoundTripper
	// Writes counts these requests while they are in flight; nil without a Gate.
	Writes *transport.Writes
	// HubPlace reads from the hub, as the hub, what the evidence of deletes depends on.
	Deletes  *deletions.Guard
	HubPlace evidence.Place
	Journal  *Journal
	Starts   *startqueue.Queue
	Limits   Limits
}

// Limits limit the steps of an App's life, and its memory; see registry.Limits. All are positive.
type Limits struct {
	StartTimeout               time.Duration
	SyncTimeout                time.Duration
	StopTimeout                time.Duration
	ReconcileTimeout           time.Duration
	StaleAfter, StaleTolerance time.Duration
	Starts                     int
	MaxObjects, MaxCacheBytes  int
}
