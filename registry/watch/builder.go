// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Builder builds a controller on the hub that watches remotes. ControllerManagedBy returns one.
type Builder struct {
	manager  ctrl.Manager
	registry *registry.Registry
	name     string
	options  controller.TypedOptions[Request]
	owner    client.Object
	sources  []source.TypedSource[Request]
	selects  []func(state.Status) bool // of the remotes that are watched
	errs     []error
}

// ControllerManagedBy returns a builder of a controller that the hub's manager runs, in a hub part supervised (see
// registry.Supervise).
//
//	watch.ControllerManagedBy(mgr, remotes).
//		For(&appsv1.Deployment{}).
//		OwnsRemote(&appsv1.Deployment{}, watch.Options[client.Object]{}).
//		Complete(r)
func ControllerManagedBy(manager ctrl.Manager, r *registry.Registry) *Builder {
	return &Builder{manager: manager, registry: r}
}

// Named sets the name for logs and metrics, unique in the hub. Default: the kind of For, in lower case.
func (b *Builder) Named(name string) *Builder {
	b.name = name
	return b
}

// WithOptions sets the other options. NewQueue defaults to a fair queue (NewQueue).
func (b *Builder) WithOptions(o controller.TypedOptions[Request]) *Builder {
	b.options = o
	return b
}

// For makes a request for every object of a kind of the hub, with an empty Cluster. Call it once at most.
func (b *Builder) For(obj client.Object, predicates ...predicate.Predicate) *Builder {
	if b.owner != nil {
		b.errs = append(b.errs, errors.New("For was called twice; use WatchesRawSource for other kinds of the hub"))
	}
	b.owner = obj
	b.sources = append(b.sources, source.TypedKind(b.manager.GetCache(), obj,
		handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []Request {
			return []Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
		}), predicates...))
	return b
}

// WatchesRemote makes requests for objects in remotes. See Remotes.
func (b *Builder) WatchesRemote(obj client.Object, o Options[client.Object]) *Builder {
	b.sources = append(b.sources, Remotes(b.registry, obj, o))
	b.selects = append(b.selects, o.Select)
	return b
}

// OwnsRemote makes a request for the object of For's kind that an object in a remote belongs to (see SetOwner). Call
// For first. Options.Map is not used.
func (b *Builder) OwnsRemote(obj client.Object, o Options[client.Object]) *Builder {
	kind, err := b.ownerKind()
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("OwnsRemote: %w", err))
		return b
	}
	o.Map = func(_ context.Context, _ state.ClusterName, obj client.Object) []Request {
		if key, ok := ownerIn(obj, kind); ok {
			return []Request{{NamespacedName: key}}
		}
		return nil
	}
	return b.WatchesRemote(obj, o)
}

func (b *Builder) ownerKind() (schema.GroupKind, error) {
	if b.owner == nil {
		return schema.GroupKind{}, errors.New("call For first: it names the kind of the owner")
	}
	gvk, err := apiutil.GVKForObject(b.owner, b.manager.GetScheme())
	return gvk.GroupKind(), err
}

// WatchesRawSource adds any other source.
func (b *Builder) WatchesRawSource(s source.TypedSource[Request]) *Builder {
	b.sources = append(b.sources, s)
	b.selects = append(b.selects, nil) // the source may make requests for any remote
	return b
}

// Complete builds the controller and adds it to the manager.
func (b *Builder) Complete(r reconcile.TypedReconciler[Request]) error {
	_, err := b.Build(r)
	return err
}

// Build is like Complete, and returns the controller.
//
// Requests for objects of a remote that is not Ready, or that no source selects any longer, reach the reconciler when
// that changes, as do retries after an error. They are dropped when the remote has left the hub.
func (b *Builder) Build(r reconcile.TypedReconciler[Request]) (controller.TypedController[Request], error) {
	if len(b.sources) == 0 {
		b.errs = append(b.errs, errors.New("nothing is watched: call For or WatchesRemote"))
	}
	if b.name == "" {
		kind, err := b.ownerKind()
		if err != nil {
			b.errs = append(b.errs, errors.New("the controller has no name: call Named"))
		}
		b.name = strings.ToLower(kind.Kind)
	}
	if err := errors.Join(b.errs...); err != nil {
		return nil, fmt.Errorf("build controller %q: %w", b.name, err)
	}
	guarded := &reconciler{inner: r, registry: b.registry, selects: b.selects, parked: map[registry.ClusterName]map[Request]bool{}}
	b.options.Reconciler = registry.Supervise(b.manager, guarded)
	b.sources = append(b.sources, guarded.returns())
	if b.options.NewQueue == nil {
		b.options.NewQueue = NewQueue(nil)
	}
	if b.options.LogConstructor == nil {
		b.options.LogConstructor = logConstructor(b.manager.GetLogger(), b.name)
	}
	c, err := controller.NewTyped(b.name, b.manager, b.options)
	if err != nil {
		return nil, fmt.Errorf("build controller %q: %w", b.name, err)
	}
	for _, s := range b.sources {
		if err := c.Watch(s); err != nil {
			return nil, fmt.Errorf("build controller %q: %w", b.name, err)
		}
	}
	return c, nil
}

func logConstructor(log logr.Logger, name string) func(*Request) logr.Logger {
	log = log.WithValues("controller", name)
	return func(r *Request) logr.Logger {
		if r == nil {
			return log
		}
		return log.WithValues("cluster", r.Cluster, "namespace", r.Namespace, "name", r.Name)
	}
}

// reconciler holds requests for remotes that cannot be used, and drops those for remotes that have left. When a remote
// is back, its objects make requests again; deletions, other sources and results do not.
type reconciler struct {
	inner    reconcile.TypedReconciler[Request]
	registry *registry.Registry
	selects  []func(state.Status) bool

	mu     sync.Mutex // protects parked
	parked map[state.ClusterName]map[Request]bool
}

func (r *reconciler) returns() source.TypedSource[Request] {
	return source.TypedFunc[Request](func(
		ctx context.Context, queue workqueue.TypedRateLimitingInterface[Request],
	) error {
		r.registry.Follow(ctx, func(e registry.Event) {
			_, known := r.registry.Status(e.Name)
			if known && !r.isUsable(Request{Cluster: e.Name}) {
				return
			}
			r.mu.Lock()
			held := r.parked[e.Name]
			delete(r.parked, e.Name)
			r.mu.Unlock()
			if !known {
				return
			}
			for one := range held {
				queue.Add(one)
			}
		})
		return nil
	})
}

// park reports whether the request still has to be held: the remote may be back.
func (r *reconciler) park(request Request) bool {
	if _, known := r.registry.Status(request.Cluster); !known {
		return true // forever
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parked[request.Cluster] == nil {
		r.parked[request.Cluster] = map[Request]bool{}
	}
	r.parked[request.Cluster][request] = true
	if r.isUsable(request) { // or else the event of its return, or of its end, comes after this
		delete(r.parked[request.Cluster], request)
		return false
	}
	if _, known := r.registry.Status(request.Cluster); !known {
		delete(r.parked, request.Cluster)
	}
	return true
}

func (r *reconciler) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	if !r.isUsable(request) && r.park(request) {
		return reconcile.Result{}, nil
	}
	result, err := r.inner.Reconcile(ctx, request)
	if err != nil && !r.isUsable(request) && r.park(request) {
		return reconcile.Result{}, nil
	}
	return result, err
}

func (r *reconciler) isUsable(request Request) bool {
	if request.Cluster == "" || request.Lost {
		return true
	}
	info, _ := r.registry.Status(request.Cluster)
	return info.State == state.StateReady && slices.ContainsFunc(r.selects, func(s func(state.Status) bool) bool {
		return s == nil || s(info)
	})
}
