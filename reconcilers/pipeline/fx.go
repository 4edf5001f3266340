// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"fmt"
	"slices"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/assembly"
	"github.com/clusterfx/clusterfx/registry"
)

// Module returns an option that adds a pipeline to an App, of the hub or of a remote. It uses the App's ctrl.Manager,
// for the cluster that the App runs against, and all sets in the App that AsSet has contributed under the same name and
// for the same type of object. In a remote's app it adds Cleanup, too. The kind may be added to the scheme by any invoke
// of the App, before this option or after it.
func Module[O client.Object](o Options[O]) fx.Option {
	add := func(l fx.Lifecycle, mgr ctrl.Manager, sets []Set[O]) error {
		slices.SortFunc(sets, func(a, b Set[O]) int { return cmp.Compare(a.Name, b.Name) })
		router, err := NewRouter(sets...)
		if err != nil {
			return fmt.Errorf("pipeline %s: %w", o.Name, err)
		}
		return assembly.WhenKnown[O](l, mgr, func() error { return AddTo(mgr, router, o) })
	}
	cleanup := func(mgr ctrl.Manager) registry.CleanupStep { return Cleanup[O](mgr, o.Name) }
	return fx.Module("pipeline",
		fx.Invoke(fx.Annotate(add, fx.ParamTags("", "", group(o.Name).Tag()))),
		fx.Provide(registry.AsCleanup(cleanup)), // In the App of a hub nothing uses it.
	)
}

// AsSet returns an option that contributes a set to the pipeline of that name. The constructor is a function that
// returns a Set[O], or a Set[O] and an error, and takes any values of the App. As with every constructor of fx the
// compiler does not check its parameters; a constructor that returns another type fails the App.
func AsSet[O client.Object](pipeline string, constructor any) fx.Option {
	option, err := assembly.Contribute[Set[O]](group(pipeline), constructor)
	if err != nil {
		return fx.Error(fmt.Errorf("%w: pipeline %s: %w", ErrInvalidConfig, pipeline, err))
	}
	return option
}

// group collects the sets of a pipeline.
func group(pipeline string) assembly.Group { return assembly.Group("pipeline.sets." + pipeline) }
