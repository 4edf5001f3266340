// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/errtree"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Supervise is registry.Supervise, for the module of a Manager. With another manager, or for a supervised reconciler,
// it returns r.
func Supervise[request comparable](manager ctrl.Manager, r reconcile.TypedReconciler[request]) reconcile.TypedReconciler[request] {
	m, ok := manager.(*Manager)
	if !ok {
		return r
	}
	if _, already := r.(supervisedReconciler); already {
		return r
	}
	return &supervised[request]{inner: r, guard: m.guard}
}

type supervised[request comparable] struct {
	inner   reconcile.TypedReconciler[request]
	guard   *Container
	breaker breaker
}

// supervisedReconciler is a supervised reconciler of any type of requests.
type supervisedReconciler interface {
	setQueue(app *App, field reflect.Value, of liveness.Subject)
}

func (s *supervised[request]) setQueue(app *App, field reflect.Value, of liveness.Subject) {
	setQueue[request](app, field, of)
}

func (s *supervised[request]) Reconcile(ctx context.Context, r request) (result reconcile.Result, err error) {
	app := s.guard.App
	ctx, span := app.Tracer.StartReconcile(ctx, app.Name, s.guard.Module, app.Number)
	defer func() { telemetry.EndReconcile(span, outcomeOf(result, err), err) }()
	patience := 2 * s.timeout(ctx)
	watchdog := time.AfterFunc(patience, func() { s.stuck(ctx, r, patience) })
	defer watchdog.Stop()
	defer func() {
		if value := recover(); value != nil {
			err = s.panicked(ctx, r, panics.New(value))
		}
	}()
	began := time.Now()
	result, err = s.inner.Reconcile(ctx, r)
	if after := retryAfter(err); after > 0 {
		logf.FromContext(ctx).V(1).Info("A request was held or refused; the reconcile is repeated later", "reason", err.Error(), "after", after.String())
		result, err = reconcile.Result{RequeueAfter: after}, nil
	}
	s.count(result, err, time.Since(began))
	s.breaker.worked()
	if result.RequeueAfter > 0 {
		result.RequeueAfter = max(result.RequeueAfter, minRequeueAfter)
	}
	return result, err
}

func (s *supervised[request]) count(result reconcile.Result, err error, took time.Duration) {
	f := s.guard.App.Metrics
	f.CountReconcile(s.guard.App.Name, s.guard.Module, outcomeOf(result, err))
	f.ObserveReconcile(s.guard.Module, took)
}

// Outcomes in metrics and traces.
const (
	outcomeSuccess = "success"
	outcomeAgain   = "requeue_after"
	outcomeError   = "error"
	outcomePanic   = "panic"
)

func outcomeOf(result reconcile.Result, err error) string {
	switch {
	case err == nil && result.RequeueAfter > 0:
		return outcomeAgain
	case err == nil:
		return outcomeSuccess
	}
	if panicked := (*panics.Error)(nil); errors.As(err, &panicked) {
		return outcomePanic
	}
	return outcomeError
}

const (
	// heldRetry, up to a quarter more, is for held deletes: with a growing backoff a person who allows them would not
	// see the effect.
	heldRetry = 30 * time.Second
	// replacedRetry is for an object that was replaced since it was read; the cache may lag behind.
	replacedRetry = time.Second
	// refusedRetry, up to half more, is for writes that the gate has refused. A backoff could wait minutes after it
	// opens.
	refusedRetry = 5 * time.Second
)

// retryAfter is not 0 for an error of nothing but held deletes, deletes of replaced objects and writes that the gate
// refused. None of these belongs in a log.
func retryAfter(err error) time.Duration {
	switch {
	case deletes.IsHeld(err):
		return heldRetry + rand.N(heldRetry/4)
	case errtree.All(err, is[*replacedError]):
		return replacedRetry
	case errtree.All(err, is[*transport.RefusedError]):
		return refusedRetry + rand.N(refusedRetry/2)
	}
	return 0
}

func is[T error](err error) bool {
	_, ok := err.(T) //nolint:errorlint // errtree.All unwraps.
	return ok
}

// minRequeueAfter: controller-runtime limits the rate of errors only, so a reconciler that repeats its request at once
// would occupy a processor.
const minRequeueAfter = 100 * time.Millisecond

func (s *supervised[request]) timeout(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return s.guard.App.ReconcileTimeout
}

func (s *supervised[request]) panicked(ctx context.Context, r request, err *panics.Error) error {
	s.guard.CountPanic()
	s.guard.App.Metrics.CountReconcile(s.guard.App.Name, s.guard.Module, outcomePanic)
	logf.FromContext(ctx).Info("A reconciler panicked", "panic", err.Error(), "stack", string(err.Stack))
	if s.breaker.panicked(fmt.Sprint(r), time.Now()) {
		s.guard.Fail(fmt.Errorf("a controller does nothing but panic: %w", err))
	}
	return err
}

func (s *supervised[request]) stuck(ctx context.Context, r request, after time.Duration) {
	app := s.guard.App
	if app.Context.Err() != nil {
		return // the app has ended without the call and is a zombie
	}
	after = after.Round(time.Millisecond)
	logf.FromContext(ctx).Info("A reconciler does not return", "after", after.String(),
		"goroutines", dump(s.guard.labels()...))
	s.guard.Fail(fmt.Errorf("stuck: a reconciler has not returned from %v for %s, twice its timeout", r, after))
}

const (
	breakerPanics   = 10
	breakerWithin   = time.Minute
	breakerRequests = 3
)

type breaker struct {
	mu       sync.Mutex // protects the fields
	useful   bool       // a call has returned since the app began
	times    []time.Time
	requests map[string]bool // of the panics in a row, breakerRequests at most
}

func (b *breaker) worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.useful, b.times, b.requests = true, b.times[:0], nil
}

// panicked reports whether the controller does nothing but panic. One request says little about a controller that has
// served others: its backoff is enough.
func (b *breaker) panicked(request string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.times = append(b.times, now)
	if len(b.requests) < breakerRequests {
		if b.requests == nil {
			b.requests = map[string]bool{}
		}
		b.requests[request] = true
	}
	if len(b.times) > breakerPanics {
		b.times = b.times[1:]
	}
	return len(b.times) == breakerPanics && now.Sub(b.times[0]) <= breakerWithin &&
		(!b.useful || len(b.requests) >= breakerRequests)
}
