// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"errors"
	"fmt"
	"reflect"

	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

// Group is the name of a value group to which modules contribute.
type Group string

// Tag returns the tag that makes a parameter or a result part of the group.
func (g Group) Tag() string { return fmt.Sprintf("group:%q", string(g)) }

// Contribute returns an option that adds the result of a constructor to a group. The constructor is a function that
// returns a T, or a T and an error; Contribute returns an error for any other value.
func Contribute[T any](to Group, constructor any) (fx.Option, error) {
	kind := reflect.TypeOf(constructor)
	if kind == nil || kind.Kind() != reflect.Func || kind.NumOut() == 0 || kind.Out(0) != reflect.TypeFor[T]() {
		return nil, fmt.Errorf("a constructor of %v is needed, not %v", reflect.TypeFor[T](), kind)
	}
	return fx.Provide(fx.Annotate(constructor, fx.ResultTags(to.Tag()))), nil
}

// WhenKnown calls add in an invoke of an App. If the scheme of the App's manager does not know the kind of the objects
// yet, it calls add when the App starts: all invokes have run by then, including the invokes that add kinds to the
// scheme, and the manager has not started.
func WhenKnown[O client.Object](l fx.Lifecycle, mgr ctrl.Manager, add func() error) error {
	if mgr == nil {
		return add()
	}
	if _, err := object.KindOf[O](mgr.GetClient()); runtime.IsNotRegisteredError(errors.Unwrap(err)) {
		l.Append(fx.StartHook(add))
		return nil
	}
	return add()
}
