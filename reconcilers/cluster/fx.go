// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/reconcilers/observe"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Params are the values that Setup needs from the hub's App.
type Params struct {
	fx.In
	Manager  ctrl.Manager       // Manager is the hub's. Its cache must have been made with CacheOptions.
	Registry *registry.Registry // Registry runs the remotes.
	// Journal is the registry's journal. Default: none, so that an app that crashes the hub crashes it after each restart.
	Journal  *Journal              `optional:"true"`
	Metrics  prometheus.Registerer `optional:"true"` // Metrics registers the metrics of Clusters. Default: no metrics.
	Traces   trace.TracerProvider  `optional:"true"` // Traces receives a span of each Reconcile of a Cluster. Default: no spans.
	Monitor  *liveness.Monitor     `optional:"true"` // Monitor watches the workers of the controller. Default: none.
	Share    Share                 `optional:"true"` // Share is this hub's share of the Clusters. Default: all of them.
	Tunnels  Tunnels               `optional:"true"` // Tunnels knows the agents of remotes. Default: there are no tunnels.
	Settings Settings              `optional:"true"` // Settings configure the controller. Default: the zero value.
}

// Module adds this package's controller to the hub's manager, and gives the registry a Journal and observe's middleware.
var Module = fx.Module("cluster",
	fx.Provide(fx.Annotate(NewJournal, fx.ParamTags("", `optional:"true"`), fx.As(fx.Self()), fx.As(new(registry.Journal)))),
	fx.Provide(registry.AsMiddleware(observe.Middleware)),
	fx.Invoke(Setup),
)
