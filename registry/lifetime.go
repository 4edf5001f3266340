// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"runtime/pprof"
	"strconv"

	"github.com/go-logr/logr"
	"go.uber.org/dig"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/state"
)

// lifetime has the common fields of the lives of Apps whose modules are contained: of a remote's app, which is an
// epoch, and of a hub part.
//
// Its context is its fence: the clients of the modules check it right before they send a request.
type lifetime struct {
	*environment
	name   ClusterName // the remote's; empty for a hub part
	number int64
	log    logr.Logger
	labels []string // of its goroutines in profiles, as keys and values

	ctx        context.Context //nolint:containedctx // See above.
	cancel     context.CancelCauseFunc
	permission *contain.Gate
	contained  *contain.App // contains the panics of its modules

	graph   graphLog
	tracker *tracker
	hooks   hooks
}

// begin completes a life of which name, number and log are set. labels are the labels of its goroutines in profiles,
// in addition to its number. begin calls changed when the App has made progress or a module has failed.
func (l *lifetime) begin(env *environment, labels []string, modules []choice, changed func()) {
	l.environment = env
	l.labels = append(labels, "epoch", strconv.FormatInt(l.number, 10))
	l.ctx, l.cancel = context.WithCancelCause(pprof.WithLabels(env.root, pprof.Labels(l.labels...)))
	l.permission = contain.NewGate(l.ctx)
	l.log = logsink.QuietAfter(l.permission.Ended, l.log, ErrStopped, context.Canceled)
	l.graph.log = l.log.WithName("fx")
	l.hooks.log, l.hooks.timeout = l.log, env.limits.StopTimeout
	l.tracker = newTracker(modules, changed)
	l.contained = &contain.App{
		Name: string(l.name), Number: l.number, Context: l.ctx, Gate: l.permission, Labels: l.labels,
		ReconcileTimeout: env.limits.ReconcileTimeout, Metrics: env.metrics, Tracer: env.tracer,
		Fail: func(module string, err error) {
			l.tracker.fail(&moduleError{module: module, reason: state.ReasonModuleFailed, err: err})
		},
		Failed: func(module string, err error) error {
			failed := &moduleError{module: module, reason: state.ReasonModuleFailed, err: err}
			l.moduleFailed(failed)
			return failed
		},
		IsBroken:          l.tracker.isBroken,
		ControllerAdded:   l.tracker.controllerAdded,
		ControllerRefused: l.tracker.controllerRefused,
		ControllerSynced:  l.tracker.controllerSynced,
		TakeUnsupervised:  l.tracker.takeUnsupervised,
	}
}

// guard returns the guard that contains the code of a module.
func (l *lifetime) guard(module string, log logr.Logger) *contain.Guard {
	return contain.NewGuard(l.contained, module, log)
}

// moduleFailed records that a module has failed, with an error that it returned or a panic.
func (l *lifetime) moduleFailed(failed *moduleError) {
	var ours *panics.Error
	var ofGraph dig.PanicError
	if errors.As(failed, &ours) || errors.As(failed, &ofGraph) {
		l.metrics.CountPanic(string(l.name), failed.module)
	}
	l.tracker.moduleFailed(failed)
}

// stop fences the life: from now on it sends no request, its contexts have ended, and the goroutine that runs it
// cleans up. It returns at once and may be called any number of times.
func (l *lifetime) stop(cause error) { l.cancel(cause) }
