// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/clusterfx/clusterfx/registry"
)

// Backoff of an object whose reconcile returned an error.
const (
	retryBase = 100 * time.Millisecond // it may be an external system that is asked again
	retryMax  = 5 * time.Minute
)

// AddTo adds a controller that reconciles objects with the factories to a manager, that of the hub or that of a
// remote's app. It contacts nobody. The error is ErrInvalidConfig, or the manager's.
func AddTo[O client.Object](mgr ctrl.Manager, o Options[O], factories ...Factory[O]) error {
	if o.Events == nil {
		o.Events = mgr.GetEventRecorder(o.Name)
	}
	h, err := NewHost(mgr.GetClient(), mgr.GetAPIReader(), o)
	if err != nil {
		return err
	}
	r, err := NewReconciler(h, factories...)
	if err != nil {
		return err
	}
	kinds := make([]string, len(factories))
	for i, f := range factories {
		kinds[i] = f.ConditionType
	}
	b := ctrl.NewControllerManagedBy(mgr).Named(o.Name).WithOptions(h.options.controller(mgr)).
		For(newObject[O](), builder.WithPredicates(h.Predicate(kinds...)))
	if o.Build != nil {
		o.Build(b)
	}
	if err := b.Complete(registry.Supervise(mgr, r)); err != nil {
		return fmt.Errorf("add the controller of guard %s: %w", o.Name, err)
	}
	return nil
}

func (o Options[O]) controller(mgr ctrl.Manager) controller.Options {
	if o.Timeout == 0 {
		o.Timeout = mgr.GetControllerOptions().ReconciliationTimeout
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	yes := true
	return controller.Options{
		MaxConcurrentReconciles: o.Concurrency,
		ReconciliationTimeout:   o.Timeout,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryBase, retryMax),
		SkipNameValidation:      &yes, // A name is never given back, and an App may be built anew.
	}
}
