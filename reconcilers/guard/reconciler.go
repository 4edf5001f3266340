// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

const (
	outdated = time.Second
	// soon is the delay after one of several steps of a provider: by then the cache usually shows that step.
	soon = 100 * time.Millisecond
	// lockPoll bounds the time between two checks of a held lock. The release of a lock in a Lease triggers no event.
	lockPoll = 5 * time.Second
)

func newReconciler[O client.Object](h *Host[O], factories ...Factory[O]) (reconcile.Reconciler, error) {
	sorted, err := checked(factories, h.options.Order)
	if err != nil {
		return nil, fmt.Errorf("guard %s: %w", h.options.Name, err)
	}
	return &chain[O]{host: h, factories: sorted}, nil
}

type chain[O client.Object] struct {
	host      *Host[O]
	factories []Factory[O]
	done      sync.Map // UIDs of objects, by key, of which only the finalizer is left
}

func (r *chain[O]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := object.New[O]()
	if err := r.host.client.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			r.done.Delete(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read %s %s: %w", r.host.gvk.Kind, req, err)
	}
	deleting := !obj.GetDeletionTimestamp().IsZero()
	if deleting && !slices.Contains(obj.GetFinalizers(), r.host.options.identity()) {
		r.done.Delete(req.NamespacedName)
		return reconcile.Result{}, nil // The object stays for the finalizer of another controller.
	}
	result, err := r.reconcile(ctx, obj, deleting)
	if err != nil {
		return r.host.conclude(err, deleting)
	}
	return result, nil
}

func (r *chain[O]) reconcile(ctx context.Context, obj O, deleting bool) (reconcile.Result, error) {
	handling, err := chosen(r.factories, obj)
	if err != nil {
		r.host.warn(obj, "Reconcile", err)
		return reconcile.Result{}, err
	}
	controllers, err := r.controllers(ctx, obj, handling)
	if err != nil {
		return reconcile.Result{}, err
	}
	if done, _ := r.done.Load(client.ObjectKeyFromObject(obj)); deleting && done == obj.GetUID() {
		return reconcile.Result{}, r.release(ctx, obj, controllers) // The view is outdated, or the finalizer could not be removed.
	}
	for i, f := range handling {
		if i == 0 && !deleting {
			if err := controllers[i].SetFinalizer(ctx, r.host.options.identity()); err != nil {
				return reconcile.Result{}, err
			}
		}
		result, err := r.settle(ctx, f, controllers[i], deleting)
		if err != nil {
			return reconcile.Result{}, err
		}
		if result != nil {
			return controllers[i].next(*result), nil
		}
	}
	if !deleting {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.release(ctx, obj, controllers)
}

// controllers returns the controllers of all conditions, which share one precondition.
func (r *chain[O]) controllers(ctx context.Context, obj O, handling []Factory[O]) ([]*Controller[O], error) {
	p := preconditionOf(obj)
	all := make([]*Controller[O], len(handling))
	for i, f := range handling {
		var err error
		if all[i], err = r.host.controller(ctx, obj, f.ConditionType, p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r *chain[O]) settle(
	ctx context.Context, f Factory[O], c *Controller[O], deleting bool,
) (*reconcile.Result, error) {
	action := "Reconcile"
	result, err := func() (*reconcile.Result, error) {
		provider, err := f.New(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("create provider %s: %w", f.Name, err)
		}
		if deleting {
			action = "Terminate"
			return provider.Terminate(deletes.OnPurpose(ctx, deletes.Terminating(c.object)))
		}
		return provider.Reconcile(ctx)
	}()
	if err == nil || ctx.Err() != nil || c.host.isSilent(err) {
		return result, err
	}
	c.host.warn(c.object, action, err)
	if !c.failed {
		err = c.reportFailure(ctx, err)
	}
	return nil, err
}

func (c *Controller[O]) reportFailure(ctx context.Context, failure error) error {
	class, wanted := c.host.class(failure), c.seen
	wanted.fail(class, failure, c.precondition.generation)
	if c.gone || wanted.condition == c.seen.condition {
		return failure
	}
	err := c.changeEntry(ctx, func(e *entry) { e.fail(class, failure, c.precondition.generation) })
	if err != nil {
		return fmt.Errorf("%w; the condition does not show it: %w", failure, err)
	}
	return failure
}

// release removes the finalizer. No provider is called again, also if the finalizer cannot be removed at once.
func (r *chain[O]) release(ctx context.Context, obj O, controllers []*Controller[O]) error {
	if err := r.checkAbandoned(ctx, obj, controllers); err != nil {
		r.host.warn(obj, "Terminate", err)
		return err
	}
	r.done.Store(client.ObjectKeyFromObject(obj), obj.GetUID())
	return controllers[0].dropLast(ctx, r.host.options.identity(), controllers...)
}

// checkAbandoned returns an error if no provider is left to clean up: a module was removed, or Handles has changed.
func (r *chain[O]) checkAbandoned(ctx context.Context, obj O, controllers []*Controller[O]) error {
	const help = "restore the module, or clean up by hand and remove the finalizer "
	if len(controllers) == 0 {
		return fmt.Errorf("%w: %s%s", errNoProvider, help, r.host.options.identity())
	}
	for _, f := range r.factories {
		if slices.ContainsFunc(controllers, func(c *Controller[O]) bool { return c.key.kind == f.ConditionType }) {
			continue
		}
		c, err := r.host.controller(ctx, obj, f.ConditionType, preconditionOf(obj))
		if err != nil {
			return err
		}
		if c.seen.lock.Attempt > 0 || c.Settled() != "" {
			return fmt.Errorf("%w for its condition %s: %s%s", errNoProvider, f.ConditionType, help, r.host.options.identity())
		}
	}
	return nil
}

func (h *Host[O]) conclude(err error, deleting bool) (reconcile.Result, error) {
	if locked, ok := errors.AsType[*LockedError](err); ok {
		return reconcile.Result{RequeueAfter: min(locked.RetryAfter+time.Millisecond, lockPoll)}, nil
	}
	class, known := h.class(err), errors.Is(err, reconcile.TerminalError(nil))
	switch terminal := class == Terminal && !deleting; { // During a deletion the retry does not wait for a change of the object.
	case class == Conflict:
		return reconcile.Result{RequeueAfter: outdated}, nil
	case terminal && !known:
		err = reconcile.TerminalError(err)
	case known && !terminal:
		err = errors.New(err.Error())
	}
	return reconcile.Result{}, err
}

// next calls a provider again soon that has made progress and requests no time.
func (c *Controller[O]) next(result reconcile.Result) reconcile.Result {
	if c.progressed && result.RequeueAfter == 0 {
		result.RequeueAfter = soon
	}
	return result
}

// isSilent reports whether an error only requests a later retry. Held deletes are shown in one place, once for all
// objects.
func (h *Host[O]) isSilent(err error) bool {
	return errors.Is(err, ErrLocked) || deletes.IsHeld(err) || h.class(err) == Conflict
}

// class returns the class from Options.Classify. ErrStale is always a Conflict.
func (h *Host[O]) class(err error) Class {
	if errors.Is(err, ErrStale) {
		return Conflict
	}
	return h.options.Classify(err)
}

func (h *Host[O]) warn(obj O, action string, err error) {
	reason := ReasonFailed
	if h.class(err) == Terminal {
		reason = ReasonTerminalError
	}
	h.record(obj, corev1.EventTypeWarning, reason, action, err.Error())
}

func (h *Host[O]) record(obj O, eventType, reason, action, note string) { //nolint:revive // argument-limit: an event has as many
	if h.options.Events != nil {
		h.options.Events.Eventf(object.InAnyVersion(h.client.Scheme(), obj, ""), nil, eventType, reason, action,
			"%s", object.Shortened(note, object.MaxNote))
	}
}

func (h *Host[O]) resource() schema.GroupResource {
	return schema.GroupResource{Group: h.gvk.Group, Resource: h.gvk.Kind}
}
