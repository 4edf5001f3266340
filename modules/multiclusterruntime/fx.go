// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime

import (
	ctrl "sigs.k8s.io/controller-runtime"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/registry"
)

// Module gives each hub part that asks for it a manager of multicluster-runtime, which runs in the hub part's:
//
//	app.Main(multiclusterruntime.Module, registry.NewModule("configmaps", registry.ModuleOptions{
//		Hub: fx.Invoke(func(mgr mcmanager.Manager) error { ... }),
//	}))
var Module = registry.NewModule("multicluster-runtime", registry.ModuleOptions{
	Description: "Gives the hub's modules the manager of multicluster-runtime, with the remotes as its clusters.",
	ForHubParts: fx.Provide(provide),
})

type params struct {
	fx.In

	Manager ctrl.Manager
	Remotes *registry.Registry
	Options Options `optional:"true"`
}

func provide(p params) (mcmanager.Manager, error) { return New(p.Manager, p.Remotes, p.Options) }
