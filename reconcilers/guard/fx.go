// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Module returns what adds a host with a reconciler to an App, of the hub or of a remote. It takes the App's
// ctrl.Manager, which is the one of the cluster that the App runs against, and the factories that AsFactory has
// contributed under the same name and for the same type of object, wherever in the App.
func Module[O client.Object](o Options[O]) fx.Option {
	add := func(mgr ctrl.Manager, factories []Factory[O]) error {
		slices.SortFunc(factories, func(a, b Factory[O]) int {
			return cmp.Or(cmp.Compare(a.ConditionType, b.ConditionType), cmp.Compare(a.Name, b.Name))
		})
		return AddTo(mgr, o, factories...)
	}
	return fx.Module("guard", fx.Invoke(fx.Annotate(add, fx.ParamTags("", group(o.Name)))))
}

// AsFactory returns what contributes a factory to the host of that name. The constructor is a function that
// returns a Factory[O], or one and an error, and takes whatever there is in the App. What it takes is not typed,
// as with every constructor of fx; one that returns something else fails the App.
func AsFactory[O client.Object](host string, constructor any) fx.Option {
	kind := reflect.TypeOf(constructor)
	if kind == nil || kind.Kind() != reflect.Func || kind.NumOut() == 0 || kind.Out(0) != reflect.TypeFor[Factory[O]]() {
		return fx.Error(fmt.Errorf("%w: guard %s: a constructor of %v is needed, not %v",
			ErrInvalidConfig, host, reflect.TypeFor[Factory[O]](), kind))
	}
	return fx.Provide(fx.Annotate(constructor, fx.ResultTags(group(host))))
}

// group returns the tag of the value group that collects the factories of a host.
func group(host string) string { return fmt.Sprintf("group:%q", "guard.factories."+host) }
