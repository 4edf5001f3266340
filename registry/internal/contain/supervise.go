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
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/errtree"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/queue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// Supervise returns a reconciler that calls r and supervises it, as registry.Supervise describes, for the module of a
// Manager. With another manager, and for a supervised reconciler, it returns r.
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
	guard   *Guard
	breaker breaker
}

// supervisedReconciler is implemented by supervised reconcilers of all types of requests.
type supervisedReconciler interface {
	// replaceQueue replaces the queue in a field of a controller of the reconciler.
	replaceQueue(field reflect.Value, m *queue.Metrics)
}

func (s *supervised[request]) replaceQueue(field reflect.Value, m *queue.Metrics) {
	replaceQueue[request](field, m)
}

// hasSupervisor reports whether the reconciler of a controller is supervised. A controller without a known reconciler
// counts as supervised.
func hasSupervisor(controller manager.Runnable) bool {
	r := reconcilerOf(controller)
	_, supervised := r.(supervisedReconciler)
	return supervised || r == nil
}

// reconcilerOf returns the reconciler of a controller, or nil. controller-runtime keeps the reconciler in a field of a type
// that has no exported name.
func reconcilerOf(controller manager.Runnable) any {
	if field := fieldOf(controller, "Do"); field.IsValid() {
		return field.Interface()
	}
	return nil
}

// fieldOf returns an exported field of a controller, or the zero Value if the controller has no such field.
func fieldOf(controller manager.Runnable, name string) reflect.Value {
	v := reflect.Indirect(reflect.ValueOf(controller))
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	field, ok := v.Type().FieldByName(name)
	if !ok || len(field.Index) != 1 || !field.IsExported() {
		return reflect.Value{}
	}
	return v.FieldByIndex(field.Index)
}

// Reconcile calls the reconciler.
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

// count counts a call that has returned.
func (s *supervised[request]) count(result reconcile.Result, err error, took time.Duration) {
	f := s.guard.App.Metrics
	f.CountReconcile(s.guard.App.Name, s.guard.Module, outcomeOf(result, err))
	f.ObserveReconcile(s.guard.Module, took)
}

// Outcomes of a call, in metrics and traces.
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
	// heldRetry is when a reconcile whose deletes are held is repeated, with up to a quarter more. A backoff would wait
	// longer and longer, and a person who allows the deletes looks for their effect.
	heldRetry = 30 * time.Second
	// replacedRetry is when a reconcile is repeated that has read an object which was replaced. The cache may lag behind.
	replacedRetry = time.Second
	// refusedRetry is when a reconcile is repeated whose writes the gate has refused, with up to half of it more. A backoff
	// could wait for minutes after the gate is open again.
	refusedRetry = 5 * time.Second
)

// retryAfter returns when a reconcile is repeated that has failed with nothing else than deletes which were held, deletes of
// objects that were replaced, or writes that the gate has refused: none of that is an error for a log. It is 0 for all other
// errors.
func retryAfter(err error) time.Duration {
	switch {
	case deletes.IsHeld(err):
		return heldRetry + rand.N(heldRetry/4)
	case errtree.All(err, isReplaced):
		return replacedRetry
	case errtree.All(err, isRefused):
		return refusedRetry + rand.N(refusedRetry/2)
	}
	return 0
}

func isRefused(err error) bool {
	_, refused := err.(*transport.RefusedError) //nolint:errorlint // errtree.All unwraps.
	return refused
}

func isReplaced(err error) bool {
	_, replaced := err.(*replacedError) //nolint:errorlint // errtree.All unwraps.
	return replaced
}

// minRequeueAfter is the shortest time until a repeated request comes back. controller-runtime limits the rate of
// errors only: a reconciler that repeats its request at once would occupy a processor.
const minRequeueAfter = 100 * time.Millisecond

// timeout returns how long the call may take.
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
		s.guard.fail(fmt.Errorf("a controller does nothing but panic: %w", err))
	}
	return err
}

// stuck is called after twice the timeout of a call.
func (s *supervised[request]) stuck(ctx context.Context, r request, after time.Duration) {
	app := s.guard.App
	if app.Context.Err() != nil {
		return // the app has ended without the call and is a zombie
	}
	after = after.Round(time.Millisecond)
	logf.FromContext(ctx).Info("A reconciler does not return", "after", after.String(),
		"goroutines", dump(s.guard.labels()...))
	s.guard.fail(fmt.Errorf("stuck: a reconciler has not returned from %v for %s, twice its timeout", r, after))
}

// Panics that open a breaker.
const (
	breakerPanics   = 10
	breakerWithin   = time.Minute
	breakerRequests = 3
)

// breaker finds out whether a controller does nothing but panic.
type breaker struct {
	mu       sync.Mutex // protects the fields
	useful   bool       // a call has returned since the app began
	times    []time.Time
	requests map[string]bool // of the panics in a row, breakerRequests at most
}

// worked notes a call without a panic.
func (b *breaker) worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.useful, b.times, b.requests = true, b.times[:0], nil
}

// panicked notes a panic, and reports whether the controller does nothing else. One request that panics says little
// about a controller that has served others: the backoff of the request is enough.
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
