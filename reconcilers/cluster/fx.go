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

// Params are what Setup needs of the hub's App.
type Params struct {
	fx.In

	// Manager is the hub's. Its cache must have been made with CacheOptions.
	Manager ctrl.Manager
	// Registry runs the remotes.
	Registry *registry.Registry
	// Journal is that of the registry. Default: none, so that a Cluster that crashes the hub does so
	// again and again.
	Journal *Journal `optional:"true"`
	// Metrics is where the state of the Clusters is reported. Default: nowhere.
	Metrics prometheus.Registerer `optional:"true"`
	// Traces is where a span of each Reconcile of a Cluster goes. Default: nowhere.
	Traces trace.TracerProvider `optional:"true"`
	// Heartbeats watches the workers of the controllers. Default: nothing does.
	Heartbeats *liveness.Monitor `optional:"true"`
	// Settings are what only the program knows. Default: those of the zero value.
	Settings Settings `optional:"true"`
}

// journalParams are what the journal needs of the hub's App.
type journalParams struct {
	fx.In

	Manager  ctrl.Manager
	Settings Settings `optional:"true"`
}

// journals are the journal, as this package and as the registry see it.
type journals struct {
	fx.Out

	Ours   *Journal
	Theirs registry.Journal
}

func provideJournal(p journalParams) (journals, error) {
	j, err := NewJournal(p.Manager, p.Settings)
	return journals{Ours: j, Theirs: j}, err
}

// Module adds the controllers of this package to the hub's manager, and gives the registry a Journal and the
// decoration for observing.
var Module = fx.Module("cluster",
	fx.Provide(provideJournal, registry.AsDecoration(observe.Middleware)),
	fx.Invoke(Setup),
)
