// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
)

// App is an App whose modules are contained: the app of a remote, or that of a hub part. Metrics, Tracer and
// ReadingClient may be missing.
type App struct {
	// Name is the name of the remote; empty for a hub part.
	Name string
	// Number is the number of the epoch.
	Number int64
	// Context ends with the App.
	Context context.Context //nolint:containedctx // The life of the App, which goroutines of modules ask for.
	// Gate lets the runnables of the modules work.
	Gate *Gate
	// Labels are the labels of the App's goroutines in profiles, as keys and values.
	Labels []string
	// ReconcileTimeout is the timeout of a call without a deadline.
	ReconcileTimeout time.Duration
	Metrics          *telemetry.Metrics
	Tracer           *telemetry.Tracer

	// Config is the configuration for the modules' own clients. It is set before the modules are built.
	Config *rest.Config
	// ReadingClient makes a client of a module that reads from another cache. A hub part has none.
	ReadingClient func(client.Reader) (client.Client, error)
	// Quiet returns a logger that does not report the consequences of the App's end as errors.
	Quiet func(logr.Logger) logr.Logger
	// Recorder returns the recorder for a module's events.
	Recorder func(crrecorder.EventRecorder, *runtime.Scheme) crrecorder.EventRecorder

	// Fail ends the App because a module has failed in a goroutine that nobody waits for.
	Fail func(module string, err error)
	// Failed notes that a module has failed, and returns the error that names the module.
	Failed func(module string, err error) error
	// IsBroken reports whether the App is about to end.
	IsBroken func() bool

	// ControllerAdded notes that a module has added a controller, ControllerRefused that the manager did not accept it,
	// and ControllerSynced that it has received its initial objects.
	ControllerAdded   func(module string, r manager.Runnable, supervised bool) *Controller
	ControllerRefused func(module string, w *Controller)
	ControllerSynced  func(module string, w *Controller)
	// TakeUnsupervised returns the names of the module's controllers that are not supervised, the first time.
	TakeUnsupervised func(module string) []string
}

// Goroutines names the functions in which goroutines of the App still are, with how many are in
// each. It is asked only of an App that does not end, because it looks at every goroutine of the hub.
func (a *App) Goroutines() []string {
	var found []string
	for stack := range Stacks("epoch", strconv.FormatInt(a.Number, 10)) {
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
