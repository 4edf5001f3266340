// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// NewReconciler returns a reconciler for a controller of your own; AddTo creates one. The client reads the objects,
// normally from a cache, and writes their finalizers and status. NewReconciler sends no requests. The error is
// ErrInvalidConfig.
//
// Concurrency, Timeout and Build are for AddTo. Your controller must bound the time of a reconcile, must use
// Reconciler.Predicate for the events of the objects, must wrap the reconciler with registry.Supervise in an app, and
// in a remote's app also needs Cleanup.
func NewReconciler[O client.Object](c client.Client, router *Router[O], o Options[O]) (*Reconciler[O], error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if c == nil || router == nil {
		return nil, fmt.Errorf("%w: pipeline %s needs a client and a router", ErrInvalidConfig, o.Name)
	}
	kind, err := object.KindOf[O](c)
	if err != nil {
		return nil, fmt.Errorf("%w: pipeline %s: %w", ErrInvalidConfig, o.Name, err)
	}
	return &Reconciler[O]{
		client: c, router: router, options: o, gvk: kind,
		finalizers: object.Finalizers{Client: c, Kind: kind, Owner: o.identity()},
		waiting: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](
			min(keptBase, o.Resync), min(keptMax, o.Resync)),
		replaced: cache.NewLRUExpireCache(maxReplaced),
	}, nil
}

const (
	// oldFor is how long a replaced version counts as old. A cache is rarely further behind; after a restore of etcd old
	// versions are the newest.
	oldFor      = 10 * time.Second
	maxReplaced = 10_000
)

// Reconciler runs a pipeline. Several goroutines may use it, but only one at a time for the same object.
type Reconciler[O client.Object] struct {
	client     client.Client
	router     *Router[O]
	options    Options[O]
	gvk        schema.GroupVersionKind
	finalizers object.Finalizers
	done       sync.Map              // UIDs of objects, by key, of which only the finalizer is left
	replaced   *cache.LRUExpireCache // versions that a write of conditions has just replaced, by object
	waiting    workqueue.TypedRateLimiter[types.NamespacedName]
}

type subject[O client.Object] struct {
	obj        O
	key        client.ObjectKey
	uid        types.UID
	generation int64
	ours       bool
	deleting   bool
}

// Reconcile runs one pass, or reports why it must not run.
func (r *Reconciler[O]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := object.New[O]()
	if err := r.client.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read %s %s: %w", r.gvk.Kind, req, err)
	}
	if old, _ := r.replaced.Get(req.NamespacedName); old == obj.GetResourceVersion() {
		return reconcile.Result{RequeueAfter: outdated}, nil // The pass would repeat all work, and end with a conflict.
	}
	s := subject[O]{
		obj: obj, key: req.NamespacedName, uid: obj.GetUID(), generation: obj.GetGeneration(),
		ours:     controllerutil.ContainsFinalizer(obj, r.options.identity()),
		deleting: !obj.GetDeletionTimestamp().IsZero(),
	}
	if s.deleting && !s.ours {
		r.forget(s.key) // It stays for the finalizer of another controller.
		return reconcile.Result{}, nil
	}
	return r.decide(ctx, s)
}

func (r *Reconciler[O]) forget(key types.NamespacedName) {
	r.done.Delete(key)
	r.waiting.Forget(key)
	r.replaced.Remove(key)
}

func (r *Reconciler[O]) decide(ctx context.Context, s subject[O]) (reconcile.Result, error) {
	set, err := r.router.Route(s.obj)
	done, _ := r.done.Load(s.key)
	switch {
	case errors.Is(err, ErrNoResourceSet) && !s.ours:
		return reconcile.Result{}, nil // The object belongs to another controller.
	case r.isPaused(s.obj):
		return r.conclude(ctx, s, paused())
	case done == s.uid:
		return r.release(ctx, s)
	case err != nil:
		return r.conclude(ctx, s, unroutable(err))
	case s.deleting:
		return r.delete(ctx, s, set)
	case !s.ours:
		return r.adopt(ctx, s)
	default:
		return r.update(ctx, s, set)
	}
}

func (r *Reconciler[O]) isPaused(obj O) bool {
	annotations := obj.GetAnnotations()
	return slices.ContainsFunc(r.options.PauseAnnotations, func(key string) bool { return annotations[key] == "true" })
}

func (r *Reconciler[O]) update(ctx context.Context, s subject[O], set *Set[O]) (reconcile.Result, error) {
	p, err := r.pass(ctx, s, set)
	return r.conclude(ctx, s, judge(p, err))
}

// delete runs a pass, then removes the finalizer. A successful pass is not repeated if the removal fails.
func (r *Reconciler[O]) delete(ctx context.Context, s subject[O], set *Set[O]) (reconcile.Result, error) {
	p, err := r.pass(ctx, s, set)
	if err != nil || p.keeps() {
		v := judgeDeletion(p, err)
		if p.kept.isSet() && err == nil {
			v.after = r.waiting.When(s.key)
		}
		if v.kept {
			logr.FromContextOrDiscard(ctx).Info("Kept the finalizer", "reason", v.message,
				"after", cmp.Or(v.after, r.options.Resync).String())
		}
		return r.conclude(ctx, s, v)
	}
	r.waiting.Forget(s.key)
	r.done.Store(s.key, s.uid)
	return r.release(ctx, s)
}

// pass runs a set. A panic propagates after it was written to the conditions.
func (r *Reconciler[O]) pass(ctx context.Context, s subject[O], set *Set[O]) (*pass, error) {
	ctx, flow := WithFlow(ctx)
	returned := false
	defer func() {
		if returned {
			return
		}
		if err := r.report(ctx, s, panicked(flow.pass)); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to report a panic")
		}
	}()
	err := r.runSet(ctx, s, set)
	returned = true
	return flow.pass, err
}

func (r *Reconciler[O]) runSet(ctx context.Context, s subject[O], set *Set[O]) error {
	ctx, err := set.init(ctx, s.obj)
	if err != nil {
		return fmt.Errorf("set %s: %w", set.Name, err)
	}
	if !s.deleting {
		return walk(ctx, s.obj, set.Resources, Resource[O].EnsureCreated)
	}
	resources := set.Resources
	if r.options.ReverseOnDelete {
		resources = slices.Clone(resources)
		slices.Reverse(resources)
	}
	// What belongs to an object goes with it, however many objects it is: not by mistake.
	ctx = deletes.OnPurpose(ctx, deletes.Terminating(s.obj))
	return walk(ctx, s.obj, resources, Resource[O].EnsureDeleted)
}

func (r *Reconciler[O]) conclude(ctx context.Context, s subject[O], v verdict) (reconcile.Result, error) {
	err := r.report(ctx, s, v)
	switch {
	case err != nil && v.err != nil: // A terminal error that could not be reported is not terminal.
		return reconcile.Result{}, fmt.Errorf("%s; %w", v.err.Error(), err)
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: outdated}, nil
	case err != nil:
		return reconcile.Result{}, err
	case v.err != nil:
		return reconcile.Result{}, v.err
	case v.after > 0:
		return reconcile.Result{RequeueAfter: v.after}, nil
	}
	return reconcile.Result{RequeueAfter: wait.Jitter(r.options.Resync, 0.1)}, nil
}
