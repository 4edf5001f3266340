// SPDX-License-Identifier: Apache-2.0

package hubcontroller

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

// Group is a value group to which modules contribute.
type Group string

// Tag makes a parameter or result part of the group.
func (g Group) Tag() string { return fmt.Sprintf("group:%q", string(g)) }

// Contribute adds the result of a constructor to a group. It returns an error for anything but a function that
// returns a T, or a T and an error.
func Contribute[T any](to Group, constructor any) (fx.Option, error) {
	kind := reflect.TypeOf(constructor)
	if kind == nil || kind.Kind() != reflect.Func || kind.NumOut() == 0 || kind.Out(0) != reflect.TypeFor[T]() {
		return nil, fmt.Errorf("a constructor of %v is needed, not %v", reflect.TypeFor[T](), kind)
	}
	return fx.Provide(fx.Annotate(constructor, fx.ResultTags(to.Tag()))), nil
}

// WhenKnown calls add in an invoke, or at the start of the App if the scheme does not know the kind yet: by then all
// invokes have run, and the manager has not started.
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
