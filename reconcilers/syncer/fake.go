// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
)

type fakeReconciler[T client.Object] struct {
	pair   *Pair
	syncer FakeSyncer[T]
	kind   schema.GroupVersionKind
	up     side.View
}

func (r *fakeReconciler[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return around(ctx, r.syncer, req, func(ctx context.Context) (reconcile.Result, error) {
		up := r.pair.options.Upstream.Access()
		obj, found, err := reader[T]{r.up.Reader(), r.kind, upstreamSide}.read(ctx, req.NamespacedName)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case found == absent:
			return r.syncer.FakeSyncUp(ctx, req.NamespacedName, up)
		}
		return r.syncer.FakeSync(ctx, obj, up)
	})
}

func around(
	ctx context.Context, s Base, req reconcile.Request, f func(context.Context) (reconcile.Result, error),
) (result reconcile.Result, err error) {
	starter, ok := s.(Starter)
	if !ok {
		return settle(f(ctx))
	}
	skip, err := starter.ReconcileStart(ctx, req)
	if err != nil {
		return reconcile.Result{}, err
	}
	err = ErrPanicked // until f returns
	defer func() { starter.ReconcileEnd(ctx, req, result, err) }()
	if skip {
		return reconcile.Result{}, nil
	}
	return settle(f(ctx))
}
