// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry/eventseries"
)

// retryBase is the first pause after an error; the longest is 5 minutes.
const retryBase = 5 * time.Millisecond

// AddTo adds a controller that runs the pipeline to a manager of the hub or of a remote's app, where you must also
// provide Cleanup. It sends no requests. O is a pointer to a struct that the scheme knows. The error is
// ErrInvalidConfig, or of the manager.
func AddTo[O client.Object](mgr ctrl.Manager, router *Router[O], o Options[O]) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if mgr == nil {
		return fmt.Errorf("%w: pipeline %s: a manager is needed", ErrInvalidConfig, o.Name)
	}
	if o.Events == nil {
		o.Events = eventseries.ByNote(mgr.GetEventRecorder(o.Name), mgr.GetScheme())
	}
	r, err := NewReconciler(mgr.GetClient(), router, o)
	if err != nil {
		return err
	}
	return hubcontroller.Controller{
		ControllerOptions: o.ControllerOptions, Name: o.Name, DefaultTimeout: defaultTimeout,
		RetryBase: retryBase, Predicates: []predicate.Predicate{r.Predicate()},
	}.AddTo(mgr, object.New[O](), r)
}
