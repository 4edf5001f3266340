// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
)

// Related returns the upstream objects to reconcile for an event of another kind.
type Related func(ctx context.Context, obj client.Object) []types.NamespacedName

// WatchUpstream is a source for upstream events of another kind, for a ControllerModifier.
func (p *Pair) WatchUpstream(obj client.Object, f Related) (source.TypedSource[reconcile.Request], error) {
	return watchRelated(p.options.Upstream, obj, f)
}

// WatchDownstream is a source for downstream events of another kind, for a ControllerModifier. A hub delivers all
// objects of the kind.
func (p *Pair) WatchDownstream(obj client.Object, f Related) (source.TypedSource[reconcile.Request], error) {
	return watchRelated(p.options.Downstream, obj, f)
}

func watchRelated(on Side, obj client.Object, f Related) (source.TypedSource[reconcile.Request], error) {
	v, err := on.Open(side.Want{Object: obj})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", obj, err)
	}
	return v.Requests(func(ctx context.Context, obj client.Object, _ bool) []types.NamespacedName { return f(ctx, obj) }), nil
}

// Down is an upstream object without a downstream object.
type Down[T client.Object] struct {
	Upstream T // Upstream may be changed by the syncer
	*Session[T]
}

// Both is an upstream object with its downstream object.
type Both[T client.Object] struct {
	// Upstream and Downstream may be changed by the syncer.
	Upstream, Downstream T
	// Imported: SyncUp made the upstream object. The downstream object is another owner's, and Session refuses to
	// write it.
	Imported bool
	*Session[T]
}

// Up is a downstream object without an upstream object.
type Up[T client.Object] struct {
	Downstream T // another owner's: Session refuses to write it
	*Session[T]
}
