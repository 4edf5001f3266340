// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
)

// Base is implemented by all values of a pair. A value implements any of the interfaces below in addition; only an
// Initializer is valid.
type Base interface {
	// Name is a DNS label, unique in the pair, for the controller, metrics and logs.
	Name() string
}

// Syncer keeps objects of one kind in step. Both methods are level-based: they compare present states. Results and
// errors go to the queue of the upstream object.
type Syncer[T client.Object] interface {
	Base
	// SyncDown is called if there is no downstream object.
	SyncDown(ctx context.Context, e Down[T]) (reconcile.Result, error)
	// Sync is called for both objects. The author decides which side each field comes from.
	Sync(ctx context.Context, e Both[T]) (reconcile.Result, error)
}

// UpSyncer also makes upstream objects for downstream objects that are no copies of the pair.
type UpSyncer[T client.Object] interface {
	// UpstreamName is false if there shall be no upstream object.
	UpstreamName(down T) (types.NamespacedName, bool)
	// SyncUp makes the missing upstream object with Session.CreateUpstream. Sync follows, with Both.Imported; when
	// the downstream object has gone or gets another UpstreamName, the pair deletes the upstream object.
	SyncUp(ctx context.Context, e Up[T]) (reconcile.Result, error)
}

// Importer adopts existing downstream objects that have the name of a copy.
type Importer[T client.Object] interface {
	// Import reports whether the downstream object becomes the copy: the pair marks it and owns it from then on.
	// Otherwise the name is in conflict.
	Import(ctx context.Context, up, down T) bool
}

// FakeSyncer manages upstream objects only, which others refer to by name. It usually is a ControllerModifier, too,
// that watches those others.
type FakeSyncer[T client.Object] interface {
	Base
	// FakeSyncUp is called for a name without an object.
	FakeSyncUp(ctx context.Context, name types.NamespacedName, up Access) (reconcile.Result, error)
	// FakeSync is called for an object.
	FakeSync(ctx context.Context, obj T, up Access) (reconcile.Result, error)
}

// Starter is called around each reconcile.
type Starter interface {
	// ReconcileStart is called first. If it returns true, the rest is skipped with success; an error fails the
	// reconcile.
	ReconcileStart(ctx context.Context, r reconcile.Request) (skip bool, err error)
	// ReconcileEnd follows each ReconcileStart without an error, with the outcome; ErrPanicked after a panic.
	ReconcileEnd(ctx context.Context, r reconcile.Request, result reconcile.Result, err error)
}

// Initializer is called before all controllers and indexes. No cache runs: read with Access.Live or a client of
// Access.Config.
type Initializer interface {
	Init(ctx context.Context, p *Pair) error
}

// IndexRegisterer adds indexes to the caches, after all Initializers.
type IndexRegisterer interface {
	RegisterIndices(ctx context.Context, p *Pair) error
}

// ControllerModifier may add watches and options to the controller. It is called when the caches of both sides run.
type ControllerModifier interface {
	ModifyController(p *Pair, b *registry.ControllerBuilder[reconcile.Request]) (*registry.ControllerBuilder[reconcile.Request], error)
}

// ControllerStarter adds any other controller, when the caches of both sides run.
type ControllerStarter interface {
	Register(ctx context.Context, p *Pair) error
}
