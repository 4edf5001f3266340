// SPDX-License-Identifier: Apache-2.0

package guard

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

// retryBase is the pause after the first error, since a retry may reach an external system. The longest is 5 minutes.
const retryBase = 100 * time.Millisecond

// AddTo adds a controller with the factories to a manager of the hub or of a remote's app, where you must also
// provide Cleanup. It sends no requests. The error is ErrInvalidConfig, or of the manager.
func AddTo[O client.Object](mgr ctrl.Manager, o Options[O], factories ...Factory[O]) error {
	if mgr == nil {
		return fmt.Errorf("%w: guard %s: a manager is needed", ErrInvalidConfig, o.Name)
	}
	if o.Events == nil {
		o.Events = eventseries.ByNote(mgr.GetEventRecorder(o.Name), mgr.GetScheme())
	}
	h, err := NewHost(mgr.GetClient(), mgr.GetAPIReader(), o)
	if err != nil {
		return err
	}
	r, err := newReconciler(h, factories...)
	if err != nil {
		return err
	}
	if o.Locks == nil {
		if err := mgr.Add(sweeper[O]{Host: h, log: mgr.GetLogger(), isDone: h.isLeft}); err != nil {
			return fmt.Errorf("add the sweep of guard %s: %w", o.Name, err)
		}
	}
	o = h.options
	return hubcontroller.Controller{
		ControllerOptions: o.ControllerOptions, Name: o.Name, DefaultTimeout: defaultTimeout,
		RetryBase: retryBase, Predicates: []predicate.Predicate{h.Predicate()},
	}.AddTo(mgr, object.New[O](), r)
}
