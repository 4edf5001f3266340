// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
	"github.com/clusterfx/clusterfx/registry"
)

// Register adds the controller of a Syncer. Call it while the App is built, or in ControllerStarter.Register. It
// starts watches of the hub and sends no other requests; Initializers and IndexRegisterers are for Module and Start.
// The error wraps ErrInvalidConfig, or is of the manager, a watch or ModifyController.
func Register[T client.Object](p *Pair, s Syncer[T], t Translator[T], o Options[T]) error {
	r, err := newReconciler(p, s, t, o)
	if err != nil {
		return err
	}
	b := p.controller(s, o.controller(p))
	b.WatchesRawSource(r.up.Requests(itself)).WatchesRawSource(r.down.Requests(r.observeDown))
	return p.complete(b, s, r)
}

// Opened is the reconciler of a Syncer without a controller. The caller requests what the events of both sides ask for.
type Opened struct {
	reconcile.Reconciler
	Originals, Copies Watched

	memory *memory.Memory
}

// Watched is what a Syncer watches on one side. The View may be that of many Syncers, see Side.With.
type Watched struct {
	side.View
	// Observe is for the Requests of the View. A downstream one may leave out objects without the pair's label, unless copies wait for
	// their names.
	Observe side.Notify
}

// Count returns the number of copies, with those at earlier addresses.
func (o *Opened) Count() int { return o.memory.Count() }

// Has reports whether an original has a copy, as far as the events of copies tell.
func (o *Opened) Has(up types.NamespacedName) bool {
	return o.memory.Of(up).Copy.Name != "" || len(o.memory.FormersOf(up)) > 0
}

// Open is for the author of a controller in which many pairs come and go. A ControllerModifier is not called, nor do Concurrency and
// Timeout apply. Errors are those of Register.
func Open[T client.Object](p *Pair, s Syncer[T], t Translator[T], o Options[T]) (*Opened, error) {
	r, err := newReconciler(p, s, t, o)
	if err != nil {
		return nil, err
	}
	return &Opened{
		Reconciler: r, Originals: Watched{r.up, itself}, Copies: Watched{r.down, r.observeDown}, memory: r.memory,
	}, nil
}

// RegisterFake adds the controller of a FakeSyncer to the pair.
func RegisterFake[T client.Object](p *Pair, s FakeSyncer[T], o Options[T]) error {
	kind, err := kindOf(p, o)
	if err != nil {
		return err
	}
	up, err := p.options.Upstream.Open(side.Want{Object: newObject[T](kind)})
	if err != nil {
		return fmt.Errorf("syncer %s: %w", s.Name(), err)
	}
	r := &fakeReconciler[T]{pair: p, syncer: s, kind: kind, up: up}
	b := p.controller(s, o.controller(p))
	b.WatchesRawSource(up.Requests(itself))
	return p.complete(b, s, r)
}

type controllerBuilder = registry.ControllerBuilder[reconcile.Request]

func (p *Pair) controller(s Base, o controller.Options) *controllerBuilder {
	return registry.ControllerManagedBy(p.options.Manager).Named(p.options.Name + "-" + s.Name()).WithOptions(o)
}

func (p *Pair) complete(b *controllerBuilder, s Base, r reconcile.Reconciler) error {
	if problems := validation.IsDNS1123Label(s.Name()); len(problems) > 0 {
		return fmt.Errorf("%w: the name of syncer %q: %s", ErrInvalidConfig, s.Name(), strings.Join(problems, "; "))
	}
	if m, ok := s.(ControllerModifier); ok {
		modified, err := m.ModifyController(p, b)
		if err != nil {
			return fmt.Errorf("modify the controller of syncer %s: %w", s.Name(), err)
		}
		b = modified
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("add the controller of syncer %s: %w", s.Name(), err)
	}
	return nil
}

func (o Options[T]) controller(p *Pair) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: cmp.Or(max(o.Concurrency, 0), defaultConcurrency),
		ReconciliationTimeout:   cmp.Or(o.Timeout, p.options.Manager.GetControllerOptions().ReconciliationTimeout, defaultTimeout),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax),
		// A name is never released, and an App may be built again.
		SkipNameValidation: new(true),
	}
}

func newReconciler[T client.Object](p *Pair, s Syncer[T], t Translator[T], o Options[T]) (*reconciler[T], error) {
	kind, err := kindOf(p, o)
	if err != nil {
		return nil, err
	}
	if _, importer := s.(UpSyncer[T]); importer && p.options.Downstream.SeesCopiesOnly() {
		return nil, fmt.Errorf("%w: syncer %s is an UpSyncer, and a pair watches only its own copies in a hub downstream; "+
			"make the hub the upstream cluster", ErrInvalidConfig, s.Name())
	}
	if t, err = translate.Bind(t, p.options.Identity, kind); err != nil {
		return nil, fmt.Errorf("%w: syncer %s: %w", ErrInvalidConfig, s.Name(), err)
	}
	o.OnDownstreamDeletion = cmp.Or(o.OnDownstreamDeletion, Recreate)
	r := &reconciler[T]{
		pair: p, syncer: s, options: o, memory: memory.New(), translator: t, keys: p.options.Identity.Keys(),
		kind: kind, isTyped: p.options.Manager.GetScheme().Recognizes(kind),
		pauses:    workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](pauseBase, retryMax),
		finalizer: FinalizerOf(p.options.Identity),
		log:       p.options.Manager.GetLogger().WithValues("pair", p.options.Name, "syncer", s.Name()),
	}
	empty := newObject[T](kind)
	if r.up, err = p.options.Upstream.Open(side.Want{Object: empty, Refused: p.options.Refused}); err != nil {
		return nil, fmt.Errorf("syncer %s: watch upstream: %w", s.Name(), err)
	}
	copies := side.Want{Object: empty, Label: r.keys.ManagedBy, Value: translate.ManagedBy(t), Refused: p.options.Refused}
	if r.down, err = p.options.Downstream.Open(copies); err != nil {
		return nil, fmt.Errorf("syncer %s: watch downstream: %w", s.Name(), err)
	}
	r.copies = p.metrics.copies(r.kind.Kind)
	return r, nil
}

func kindOf[T client.Object](p *Pair, o Options[T]) (schema.GroupVersionKind, error) {
	if p == nil {
		return schema.GroupVersionKind{}, fmt.Errorf("%w: there is no pair", ErrInvalidConfig)
	}
	if !o.Kind.Empty() {
		return o.Kind, nil
	}
	kind, err := object.KindOf[T](p.options.Manager.GetClient())
	if err != nil {
		return kind, fmt.Errorf("%w: %w; or set Options.Kind", ErrInvalidConfig, err)
	}
	return kind, nil
}

func newObject[T client.Object](kind schema.GroupVersionKind) T {
	obj := object.New[T]()
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		u.SetGroupVersionKind(kind)
	}
	return obj
}
