// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// NewReconciler returns the reconciler that AddTo adds, for tests that call it by hand.
func NewReconciler[O client.Object](c client.Client, router *Router[O], o Options[O]) (reconcile.Reconciler, error) {
	return newReconciler(c, router, o)
}
