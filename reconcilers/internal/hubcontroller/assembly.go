// SPDX-License-Identifier: Apache-2.0

package hubcontroller

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
)

const longestBackoff = 5 * time.Minute

const defaultConcurrency = 8

// ControllerOptions configure the controller of AddTo and Module. All are optional.
type ControllerOptions struct {
	Concurrency int                 // how many objects are reconciled at once, each by one worker. Default: 8.
	Timeout     time.Duration       // Timeout bounds one reconcile. Default: the manager's, or the package's.
	Build       func(*ctrl.Builder) // Build adds watches and predicates. Default: only the objects are watched.
}

// Controller is for one kind. All fields but ControllerOptions are required.
type Controller struct {
	ControllerOptions
	Name           string                // Name names the controller
	DefaultTimeout time.Duration         // DefaultTimeout applies without one of the options or the manager
	RetryBase      time.Duration         // the first pause after errors, which doubles
	Predicates     []predicate.Predicate // Predicates filter the events of the objects
}

// AddTo adds the controller to a manager. obj is an empty object of the kind. It sends no requests.
func (c Controller) AddTo(mgr ctrl.Manager, obj client.Object, r reconcile.Reconciler) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(c.Name).WithOptions(c.options(mgr)).
		For(obj, builder.WithPredicates(c.Predicates...))
	if c.Build != nil {
		c.Build(b)
	}
	if err := b.Complete(registry.Supervise(mgr, r)); err != nil {
		return fmt.Errorf("add the controller %s: %w", c.Name, err)
	}
	return nil
}

func (c Controller) options(mgr ctrl.Manager) controller.Options {
	yes := true
	return controller.Options{
		MaxConcurrentReconciles: cmp.Or(max(c.Concurrency, 0), defaultConcurrency),
		ReconciliationTimeout:   cmp.Or(c.Timeout, mgr.GetControllerOptions().ReconciliationTimeout, c.DefaultTimeout),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](c.RetryBase, longestBackoff),
		SkipNameValidation:      &yes, // A name is never released, and an App may be built again.
	}
}
