// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
)

// Base is the part that all values of a pair have. A value implements any of the interfaces below in addition, and several
// of them if needed; a value that is only an Initializer is valid.
type Base interface {
	// Name names the value, and its controller, within the pair: a DNS label. It is part of metrics and logs.
	Name() string
}

// Syncer keeps objects of one kind in step. Both methods are level-based: they compare the present states and do not know
// which side has changed. Returned results and errors go to the queue of the upstream object.
type Syncer[T client.Object] interface {
	Base
	// SyncDown is called for an upstream object without a downstream object.
	SyncDown(ctx context.Context, e Down[T]) (reconcile.Result, error)
	// Sync is called for an upstream object with its downstream object. The author decides for each field which side it
	// comes from, usually the spec from upstream and the status from downstream.
	Sync(ctx context.Context, e Both[T]) (reconcile.Result, error)
}

// UpSyncer is a Syncer that makes upstream objects for downstream objects which are no copies of the pair.
type UpSyncer[T client.Object] interface {
	// UpstreamName returns the name of the upstream object for a downstream object, and false if there shall be none.
	UpstreamName(down T) (types.NamespacedName, bool)
	// SyncUp is called for such a downstream object while its upstream object does not exist. It makes the object with
	// Session.CreateUpstream. From then on Sync is called for both, with Both.Imported set; when the downstream object has
	// gone, or UpstreamName returns another name for it, the pair deletes the upstream object.
	SyncUp(ctx context.Context, e Up[T]) (reconcile.Result, error)
}

// Importer is a Syncer that adopts downstream objects which exist already under the name of a copy.
type Importer[T client.Object] interface {
	// Import reports whether the pair shall take over the downstream object as the copy of the upstream object. If it does,
	// the pair writes its marks to the object and owns it from then on. Otherwise the name is in conflict.
	Import(ctx context.Context, up, down T) bool
}

// FakeSyncer manages objects in the upstream cluster only, for other objects that refer to them by name. It usually is a
// ControllerModifier, too, which watches the objects that refer.
type FakeSyncer[T client.Object] interface {
	Base
	// FakeSyncUp is called for a name without an object.
	FakeSyncUp(ctx context.Context, name types.NamespacedName, up Access) (reconcile.Result, error)
	// FakeSync is called for an object.
	FakeSync(ctx context.Context, obj T, up Access) (reconcile.Result, error)
}

// Starter is a Syncer that is called around each reconcile.
type Starter interface {
	// ReconcileStart is called first. If it returns true, the rest of the reconcile is skipped, with success; if it returns an
	// error, the reconcile fails.
	ReconcileStart(ctx context.Context, r reconcile.Request) (skip bool, err error)
	// ReconcileEnd is called after each reconcile in which ReconcileStart has returned without an error, with the outcome,
	// also after a skipped reconcile and, with ErrPanicked, after one that panicked.
	ReconcileEnd(ctx context.Context, r reconcile.Request, result reconcile.Result, err error)
}

// Initializer is called before all controllers and indexes of the pair, while no cache is running: reads need Access.Live, or
// a client made from Access.Config.
type Initializer interface {
	Init(ctx context.Context, p *Pair) error
}

// IndexRegisterer adds indexes to the caches, after all Initializers.
type IndexRegisterer interface {
	RegisterIndices(ctx context.Context, p *Pair) error
}

// ControllerModifier changes the controller of a Syncer or a FakeSyncer: it may add watches and options. It is called when
// the caches of both sides run, so all clients can be used.
type ControllerModifier interface {
	ModifyController(p *Pair, b *registry.ControllerBuilder[reconcile.Request]) (*registry.ControllerBuilder[reconcile.Request], error)
}

// ControllerStarter adds any other controller to the pair's manager. It is called when the caches of both sides run.
type ControllerStarter interface {
	Register(ctx context.Context, p *Pair) error
}
