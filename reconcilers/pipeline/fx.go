// SPDX-License-Identifier: Apache-2.0

package pipeline

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

// Module returns an option that adds a pipeline to an App, with the App's ctrl.Manager and all sets that AsSet
// contributes under the same name for the same type. In a remote's app it adds Cleanup. Any invoke may add the kind
// to the scheme.
func Module[O client.Object](o Options[O]) fx.Option {
	add := func(l fx.Lifecycle, mgr ctrl.Manager, sets []Set[O]) error {
		slices.SortFunc(sets, func(a, b Set[O]) int { return cmp.Compare(a.Name, b.Name) })
		router, err := NewRouter(sets...)
		if err != nil {
			return fmt.Errorf("pipeline %s: %w", o.Name, err)
		}
		return hubcontroller.WhenKnown[O](l, mgr, func() error { return AddTo(mgr, router, o) })
	}
	cleanup := func(mgr ctrl.Manager) registry.CleanupStep { return Cleanup[O](mgr, o.Name) }
	return fx.Module("pipeline",
		fx.Invoke(fx.Annotate(add, fx.ParamTags("", "", group(o.Name).Tag()))),
		fx.Provide(registry.AsCleanup(cleanup)),
	)
}

// AsSet returns an option that contributes a set to the pipeline of that name. The constructor takes values of the
// App and returns a Set[O], or a Set[O] and an error; another type fails the App.
func AsSet[O client.Object](pipeline string, constructor any) fx.Option {
	option, err := hubcontroller.Contribute[Set[O]](group(pipeline), constructor)
	if err != nil {
		return fx.Error(fmt.Errorf("%w: pipeline %s: %w", ErrInvalidConfig, pipeline, err))
	}
	return option
}

func group(pipeline string) hubcontroller.Group {
	return hubcontroller.Group("pipeline.sets." + pipeline)
}
