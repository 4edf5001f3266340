// SPDX-License-Identifier: Apache-2.0

package assembly

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

// retryMax is the longest pause between two tries of an object whose reconcile returns errors.
const retryMax = 5 * time.Minute

// Controller says how to build a controller for one kind of objects. All fields are needed but Timeout, Build and
// Predicates.
type Controller struct {
	// Name names the controller.
	Name string
	// Concurrency is how many objects are worked on at once.
	Concurrency int
	// Timeout bounds one reconcile. Default: the manager's, or DefaultTimeout.
	Timeout, DefaultTimeout time.Duration
	// RetryBase is the pause after the first error of an object. It doubles with each further one.
	RetryBase time.Duration
	// Predicates are for the events of the objects.
	Predicates []predicate.Predicate
	// Build adds watches and predicates. Default: none.
	Build func(*ctrl.Builder)
}

// AddTo adds the controller to a manager. obj is an empty object of the kind. It contacts nobody.
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
		MaxConcurrentReconciles: c.Concurrency,
		ReconciliationTimeout:   cmp.Or(c.Timeout, mgr.GetControllerOptions().ReconciliationTimeout, c.DefaultTimeout),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](c.RetryBase, retryMax),
		SkipNameValidation:      &yes, // A name is never given back, and an App may be built anew.
	}
}
