// SPDX-License-Identifier: Apache-2.0

package registry

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

// Supervise returns a reconciler that calls r and contains its failures:
//
//   - A panic fails the request, which is tried again with backoff, and is counted. A controller that
//     only panics fails its module: ten panics in a row within a minute, if they are of at least three
//     requests or if the controller has only panicked since the app started.
//   - A call that does not return within twice its timeout fails its module. Its goroutine stays
//     behind with the app, which is fenced; the next app starts without it.
//   - A request that r requeues is called again after at least a tenth of a second.
//
// manager is the Manager that the module was given, and the app's name for the module. With any other
// manager, as in a test of the reconciler alone, Supervise returns r.
//
// The controllers of ControllerManagedBy and of the package watch are supervised. Supervise is for controllers that
// another builder or controller.New makes:
//
//	mcbuilder.ControllerManagedBy(m).For(&corev1.Pod{}).Complete(registry.Supervise(m.GetLocalManager(), r))
//
// A controller without supervision is safe for others, too: a panic is recovered, and the context of a call ends at
// its timeout. But the hub does not notice that the controller does not work, so the start of the app logs the name
// of the controller.
func Supervise[request comparable](manager ctrl.Manager, r reconcile.TypedReconciler[request]) reconcile.TypedReconciler[request] {
	return contain.Supervise(manager, r)
}
