// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
)

// App is an App whose modules are contained: the app of a remote, or the App of a hub part. It consists of values and
// functions, so that this package does not know how an App is built. Tracer, Queues and ReadingClient may
// be nil.
type App struct {
	// Name is the name of the remote; empty for a hub part.
	Name string
	// Number is the number of the epoch.
	Number int64
	// Context is the life of the App.
	Context context.Context //nolint:containedctx // Goroutines of modules outlive the calls that start them.
	// Gate lets the runnables of the modules work.
	Gate *Gate
	// Labels are the labels of the App's goroutines in profiles, as keys and values. No other goroutine has all of them.
	Labels []string
	// ReconcileTimeout limits a reconcile without a deadline, and an event handler.
	ReconcileTimeout time.Duration
	Metrics          *telemetry.Metrics
	Tracer           *telemetry.Tracer
	// Queues makes the queues of controllers; nil if controller-runtime does.
	Queues *Queues

	// Config is the configuration for clients that modules make. It is set before the modules are built.
	Config *rest.Config
	// ReadingClient makes a client for a module that reads from another cache. A hub part has none.
	ReadingClient func(client.Reader) (client.Client, error)

	// Fail ends the App because a module has failed in a goroutine whose error has no receiver.
	Fail func(module string, err error)
	// Failed notes that a module has failed, and returns an error with the name of the module.
	Failed func(module string, err error) error
	// Blind returns the kind of an informer that the module has started and that has no current objects; empty if there
	// is none.
	Blind func(module string) string
	// IsBroken reports whether the App is about to end.
	IsBroken func() bool

	// ControllerAdded notes that a module has added a controller, ControllerRefused that the manager did not accept the
	// controller, and ControllerSynced that the controller has received its initial objects.
	ControllerAdded   func(module string, r manager.Runnable, supervised bool) *Controller
	ControllerRefused func(module string, w *Controller)
	ControllerSynced  func(module string, w *Controller)
	// TakeUnsupervised returns the names of the module's controllers that are not supervised, the first time.
	TakeUnsupervised func(module string) []string
}

// Goroutines returns the functions in which the goroutines of the App are, with the number of goroutines in each. It
// looks at every goroutine of the hub, so it is only for an App that does not end.
func (a *App) Goroutines() []string {
	var found []string
	for stack := range Stacks(a.Labels...) {
		if isConnection(stack) {
			continue
		}
		if len(found) == maxNamed {
			return append(found, "and others")
		}
		found = append(found, summarize(stack))
	}
	return found
}
