// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Module returns what adds a pipeline to an App, of the hub or of a remote. It takes the App's
// ctrl.Manager, which is the one of the cluster that the App runs against, and the sets that AsSet has
// contributed under the same name and for the same type of object, wherever in the App.
func Module[O client.Object](o Options[O]) fx.Option {
	add := func(mgr ctrl.Manager, sets []Set[O]) error {
		slices.SortFunc(sets, func(a, b Set[O]) int { return cmp.Compare(a.Name, b.Name) })
		router, err := NewRouter(sets...)
		if err != nil {
			return fmt.Errorf("pipeline %s: %w", o.Name, err)
		}
		return AddTo(mgr, router, o)
	}
	return fx.Module("pipeline", fx.Invoke(fx.Annotate(add, fx.ParamTags("", group(o.Name)))))
}

// AsSet returns what contributes a set to the pipeline of that name. The constructor is a function that
// returns a Set[O], or one and an error, and takes whatever there is in the App. What it takes is not typed,
// as with every constructor of fx; one that returns something else fails the App.
func AsSet[O client.Object](pipeline string, constructor any) fx.Option {
	kind := reflect.TypeOf(constructor)
	if kind == nil || kind.Kind() != reflect.Func || kind.NumOut() == 0 || kind.Out(0) != reflect.TypeFor[Set[O]]() {
		return fx.Error(fmt.Errorf("%w: pipeline %s: a constructor of %v is needed, not %v",
			ErrInvalidConfig, pipeline, reflect.TypeFor[Set[O]](), kind))
	}
	return fx.Provide(fx.Annotate(constructor, fx.ResultTags(group(pipeline))))
}

// group returns the tag of the value group that collects the sets of a pipeline.
func group(pipeline string) string { return fmt.Sprintf("group:%q", "pipeline.sets."+pipeline) }
