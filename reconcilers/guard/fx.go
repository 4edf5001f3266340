// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"fmt"
	"slices"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry"
)

// Module returns an option that adds a host with a reconciler to an App, with the App's ctrl.Manager and all
// factories that AsFactory contributes under the same name for the same type. In a remote's app it adds Cleanup. Any
// invoke may add the kind to the scheme.
func Module[O client.Object](o Options[O]) fx.Option {
	add := func(l fx.Lifecycle, mgr ctrl.Manager, factories []Factory[O]) error {
		slices.SortFunc(factories, func(a, b Factory[O]) int {
			return cmp.Or(cmp.Compare(a.ConditionType, b.ConditionType), cmp.Compare(a.Name, b.Name))
		})
		return hubcontroller.WhenKnown[O](l, mgr, func() error { return AddTo(mgr, o, factories...) })
	}
	cleanup := func(mgr ctrl.Manager) registry.CleanupStep { return Cleanup[O](mgr, o.Name) }
	return fx.Module("guard",
		fx.Invoke(fx.Annotate(add, fx.ParamTags("", "", group(o.Name).Tag()))),
		fx.Provide(registry.AsCleanup(cleanup)), // In the App of a hub nothing uses it.
	)
}

// AsFactory returns an option that contributes a factory to the host of that name. The constructor takes values of
// the App and returns a Factory[O], or a Factory[O] and an error; another type fails the App.
func AsFactory[O client.Object](host string, constructor any) fx.Option {
	option, err := hubcontroller.Contribute[Factory[O]](group(host), constructor)
	if err != nil {
		return fx.Error(fmt.Errorf("%w: guard %s: %w", ErrInvalidConfig, host, err))
	}
	return option
}

func group(host string) hubcontroller.Group { return hubcontroller.Group("guard.factories." + host) }
