// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// App is the app of a remote, or the App of a hub part, as values and functions, so that this package does not know how
// it is built. Tracer, Queues, Monitor and ReadingClient may be nil.
type App struct {
	Name    string
	Number  int64
	Context context.Context //nolint:containedctx // Goroutines of modules outlive the calls that start them.
	Gate    *Gate
	// Labels are keys and values for profiles. No goroutine of another App has all of them.
	Labels []string
	// ReconcileTimeout limits a reconcile without a deadline, and an event handler.
	ReconcileTimeout time.Duration
	Metrics          *telemetry.Metrics
	Tracer           *telemetry.Tracer
	Queues           *Queues
	Monitor          *liveness.Monitor // watches the controllers

	// Config is for clients of modules. It is set before the modules are built.
	Config *rest.Config
	// ReadingClient makes a client that reads from another cache. A hub part has none.
	ReadingClient func(client.Reader) (client.Client, error)

	// Fail is for a failure in a goroutine whose error has no receiver.
	Fail func(module string, err error)
	// Failed returns an error with the name of the module.
	Failed func(module string, err error) error
	// Blind returns the kind of an informer that the module has started and that has no current objects, or "".
	Blind    func(module string) string
	IsBroken func() bool

	// Notes about controllers: added by a module, not accepted by the manager, all initial objects received.
	ControllerAdded   func(module, name string) *cache.Controller
	ControllerRefused func(module string, w *cache.Controller)
	ControllerSynced  func(module string, w *cache.Controller)
}

// Goroutines returns the functions in which the App's goroutines are, with numbers. It looks at every goroutine of the
// hub, so it is only for an App that does not end.
func (a *App) Goroutines() []string { return Goroutines(a.Labels...) }

// Goroutines returns the functions in which goroutines with these labels are.
func Goroutines(labels ...string) []string {
	var found []string
	for stack := range Stacks(labels...) {
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
