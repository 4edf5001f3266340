// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/clusterfx/clusterfx/registry"
)

// Backoff of an object whose pass returned an error.
const (
	retryBase = 5 * time.Millisecond
	retryMax  = 5 * time.Minute
)

// AddTo adds a controller that runs the pipeline to a manager, that of the hub or that of a remote's app. It
// contacts nobody. The error is ErrInvalidConfig, or the manager's.
func AddTo[O client.Object](mgr ctrl.Manager, router *Router[O], o Options[O]) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if o.Events == nil {
		o.Events = mgr.GetEventRecorder(o.Name)
	}
	r, err := NewReconciler(mgr.GetClient(), router, o)
	if err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).Named(o.Name).For(newObject[O]()).WithOptions(o.controller(mgr))
	if o.Build != nil {
		o.Build(b)
	}
	if err := b.Complete(registry.Supervise(mgr, r)); err != nil {
		return fmt.Errorf("add the controller of pipeline %s: %w", o.Name, err)
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
