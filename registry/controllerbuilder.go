// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

// ControllerManagedBy returns a builder like controller-runtime's, for a supervised controller of a module (see
// Supervise). manager must be the one that the module was given.
//
//	registry.ControllerManagedBy(p.Manager).For(&corev1.Pod{}).Complete(r)
func ControllerManagedBy(manager ctrl.Manager) *ControllerBuilder[ctrl.Request] {
	return TypedControllerManagedBy[ctrl.Request](manager)
}

// TypedControllerManagedBy is ControllerManagedBy for requests of another type than ctrl.Request.
func TypedControllerManagedBy[request comparable](manager ctrl.Manager) *ControllerBuilder[request] {
	return &ControllerBuilder[request]{manager: manager, inner: builder.TypedControllerManagedBy[request](manager)}
}

// ControllerBuilder builds a supervised controller, with the methods of controller-runtime's builder.
type ControllerBuilder[request comparable] struct {
	manager ctrl.Manager
	inner   *builder.TypedBuilder[request]
}

// For reconciles the objects of a kind.
func (b *ControllerBuilder[request]) For(object client.Object, o ...builder.ForOption) *ControllerBuilder[request] {
	b.inner.For(object, o...)
	return b
}

// Owns reconciles the owners of the objects of a kind, which are of the kind of For.
func (b *ControllerBuilder[request]) Owns(object client.Object, o ...builder.OwnsOption) *ControllerBuilder[request] {
	b.inner.Owns(object, o...)
	return b
}

// Watches reconciles the requests that a handler makes of the objects of a kind.
func (b *ControllerBuilder[request]) Watches(
	object client.Object, h handler.TypedEventHandler[client.Object, request], o ...builder.WatchesOption,
) *ControllerBuilder[request] {
	b.inner.Watches(object, h, o...)
	return b
}

// WatchesMetadata is Watches with the metadata of the objects only.
func (b *ControllerBuilder[request]) WatchesMetadata(
	object client.Object, h handler.TypedEventHandler[client.Object, request], o ...builder.WatchesOption,
) *ControllerBuilder[request] {
	b.inner.WatchesMetadata(object, h, o...)
	return b
}

// WatchesRawSource reconciles the requests of a source. The predicates of WithEventFilter do not apply to it.
func (b *ControllerBuilder[request]) WatchesRawSource(s source.TypedSource[request]) *ControllerBuilder[request] {
	b.inner.WatchesRawSource(s)
	return b
}

// Named names the controller. Default: the kind of For, in lower case.
func (b *ControllerBuilder[request]) Named(name string) *ControllerBuilder[request] {
	b.inner.Named(name)
	return b
}

// WithEventFilter adds a predicate for the objects of For, Owns, Watches and WatchesMetadata.
func (b *ControllerBuilder[request]) WithEventFilter(p predicate.Predicate) *ControllerBuilder[request] {
	b.inner.WithEventFilter(p)
	return b
}

// WithOptions sets the options of the controller.
func (b *ControllerBuilder[request]) WithOptions(o controller.TypedOptions[request]) *ControllerBuilder[request] {
	b.inner.WithOptions(o)
	return b
}

// WithLogConstructor sets the function that returns the logger for a request.
func (b *ControllerBuilder[request]) WithLogConstructor(log func(*request) logr.Logger) *ControllerBuilder[request] {
	b.inner.WithLogConstructor(log)
	return b
}

// Complete builds the controller and adds it to the manager.
func (b *ControllerBuilder[request]) Complete(r reconcile.TypedReconciler[request]) error {
	_, err := b.Build(r)
	return err
}

// Build is like Complete, and returns the controller.
func (b *ControllerBuilder[request]) Build(r reconcile.TypedReconciler[request]) (controller.TypedController[request], error) {
	if r != nil {
		r = Supervise(b.manager, r)
	}
	return b.inner.Build(r)
}

// Supervise returns a reconciler that calls r and contains its failures:
//
//   - A panic fails the request, which is tried again with backoff, and is counted. Ten panics in a row within a
//     minute, of at least three requests or without a success since the app started, fail the module.
//   - A call that does not return within twice its timeout fails the module. Its goroutine stays with the fenced app.
//   - A request that r requeues is called again after at least a tenth of a second.
//   - An error that wraps only refusals of Options.Gate, or of a hub part's Turn, is no error in logs and metrics:
//     the request is called again after 5 to 7.5 seconds.
//
// manager must be the one that the module was given; with any other, as in a test of the reconciler alone, Supervise
// returns r. The controllers of ControllerManagedBy and of the package watch are supervised already. Use Supervise for
// controllers of another builder or of controller.New:
//
//	mcbuilder.ControllerManagedBy(m).For(&corev1.Pod{}).Complete(registry.Supervise(m.GetLocalManager(), r))
//
// An unsupervised controller still recovers panics and ends the context of a call at its timeout, but the hub does not
// notice that it does not work; the start of the app logs its name.
func Supervise[request comparable](manager ctrl.Manager, r reconcile.TypedReconciler[request]) reconcile.TypedReconciler[request] {
	return contain.Supervise(manager, r)
}
