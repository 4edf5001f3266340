// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
)

type parts struct {
	Registry *registry.Registry
	Cache    client.Reader
}

// reporterName is the module of reporter.
const reporterName = "hubtest"

// reporter sends the parts when caches are filled, which is when a manager starts its runnables. It selects no
// remote, so no Cluster lists it.
func reporter(up chan<- parts) registry.Module {
	return registry.NewModule(reporterName, registry.ModuleOptions{
		Description: "Shows the hub to its test.",
		Select:      registry.Selector{OnRequest: true},
		HubRuns:     registry.WithRemotes,
		Hub: fx.Invoke(func(mgr ctrl.Manager, r *registry.Registry) error {
			return mgr.Add(manager.RunnableFunc(func(context.Context) error {
				up <- parts{Registry: r, Cache: mgr.GetCache()}
				return nil
			}))
		}),
	})
}
